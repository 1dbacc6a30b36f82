package ycsb

import (
	"math"
	"math/rand/v2"
)

// Zipf draws ranks below n of which rank i is as likely as 1/(i+1)^skew, by the method of Gray et al. (SIGMOD 1994).
type Zipf struct {
	n                       float64
	skew, alpha, zetaN, eta float64
	second                  float64 // second is the bound below which rank 1 is drawn
}

// NewZipf takes a skew from 0 (all alike) to below 1.
func NewZipf(n int, skew float64) *Zipf {
	z := &Zipf{n: float64(n), skew: skew, alpha: 1 / (1 - skew)}
	for i := n; i > 0; i-- { // the smallest first, for the sake of the rounding
		z.zetaN += math.Pow(float64(i), -skew)
	}
	z.second = 1 + math.Pow(0.5, skew)
	z.eta = (1 - math.Pow(2/z.n, 1-skew)) / (1 - z.second/z.zetaN)
	return z
}

// Draw is the next rank.
func (z *Zipf) Draw(r *rand.Rand) uint64 {
	u := r.Float64()
	switch at := u * z.zetaN; {
	case at < 1 || z.n < 2:
		return 0
	case at < z.second:
		return 1
	}
	return min(uint64(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)), uint64(z.n)-1)
}
