package load

import (
	mathrand "math/rand/v2"

	"github.com/qioi/qioi/ledger/internal/zipf"
)

// chooser draws accounts or keys.
type chooser struct {
	workloadOptions
	law *zipf.Law // nil: hot keys, or all alike
}

func newChooser(o workloadOptions) chooser {
	c := chooser{workloadOptions: o}
	if o.zipf > 0 {
		c.law = zipf.New(o.accounts, o.zipf)
	}
	return c
}

func (c chooser) random(i int) *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(c.seed, uint64(i)))
}

func (c chooser) pick(r *mathrand.Rand) int {
	switch {
	case c.law != nil:
		return c.law.Draw(r.Float64())
	case c.hotKeys == 0 || c.hotKeys >= c.accounts:
		return r.IntN(c.accounts)
	case r.Float64() < c.hotShare:
		return r.IntN(c.hotKeys)
	default:
		return c.hotKeys + r.IntN(c.accounts-c.hotKeys)
	}
}
