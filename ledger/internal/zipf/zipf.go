// Package zipf draws some things more often than others.
package zipf

import "math"

// Law is Zipf's: of n things, thing i is drawn in proportion to 1/(i+1)^exponent. The first two are drawn so exactly, the
// others by the closed form of Gray and others, "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as in
// YCSB.
type Law struct {
	n                        float64
	zeta, alpha, eta, second float64
}

// New takes 1 or more things, and an exponent from 0 (all alike) to below 1. It sums up a term for each thing.
func New(n int, exponent float64) *Law {
	z := &Law{n: float64(n), alpha: 1 / (1 - exponent), second: 1 + math.Pow(2, -exponent)}
	for i := n; i > 0; i-- { // the smallest first, for the sake of the rounding
		z.zeta += math.Pow(float64(i), -exponent)
	}
	if n > 2 {
		z.eta = (1 - math.Pow(2/z.n, 1-exponent)) / (1 - z.second/z.zeta)
	}
	return z
}

// Draw gives the thing for a number from 0 to below 1, all of which are alike.
func (z *Law) Draw(u float64) int {
	switch at := u * z.zeta; {
	case at < 1:
		return 0
	case at < z.second:
		return 1
	}
	return min(int(z.n)-1, int(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)))
}
