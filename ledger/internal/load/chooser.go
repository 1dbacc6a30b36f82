package load

import (
	"math"
	mathrand "math/rand/v2"
)

// chooser draws accounts or keys.
type chooser struct {
	workloadOptions
	law *zipfian // nil: hot keys, or all alike
}

func newChooser(o workloadOptions) chooser {
	c := chooser{workloadOptions: o}
	if o.zipf > 0 {
		c.law = newZipfian(o.accounts, o.zipf)
	}
	return c
}

func (c chooser) random(i int) *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(c.seed, uint64(i)))
}

func (c chooser) pick(r *mathrand.Rand) int {
	switch {
	case c.law != nil:
		return c.law.pick(r.Float64())
	case c.hotKeys == 0 || c.hotKeys >= c.accounts:
		return r.IntN(c.accounts)
	case r.Float64() < c.hotShare:
		return r.IntN(c.hotKeys)
	default:
		return c.hotKeys + r.IntN(c.accounts-c.hotKeys)
	}
}

// zipfian draws from n things by Zipf's law with an exponent below 1, as YCSB does: the first two exactly, the others by
// the closed form of Gray and others, "Quickly generating billion-record synthetic databases" (1994).
type zipfian struct {
	n                       float64
	zeta, alpha, eta, first float64
}

func newZipfian(n int, exponent float64) *zipfian {
	zeta := 0.0
	for i := 1; i <= n; i++ {
		zeta += math.Pow(float64(i), -exponent)
	}
	first := 1 + math.Pow(2, -exponent) // the first two things' part of zeta
	eta := 1.0
	if n > 2 {
		eta = (1 - math.Pow(2/float64(n), 1-exponent)) / (1 - first/zeta)
	}
	return &zipfian{n: float64(n), zeta: zeta, alpha: 1 / (1 - exponent), eta: eta, first: first}
}

// pick gives the thing for a number from 0 to below 1.
func (z *zipfian) pick(u float64) int {
	switch place := u * z.zeta; {
	case place < 1:
		return 0
	case place < z.first:
		return 1
	}
	return min(int(z.n)-1, int(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)))
}
