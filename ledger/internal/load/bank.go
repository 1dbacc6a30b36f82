package load

import (
	mathrand "math/rand/v2"
	"strconv"
)

// initialBalance and maxAmount are those of Caliper's smallbank.
const (
	initialBalance = "1000000"
	maxAmount      = 200
)

// bankCreate makes a new account with each transaction: no two conflict.
type bankCreate struct{ run string }

func (w *bankCreate) setup() []call { return nil }

func (w *bankCreate) call(i int) call {
	id := w.run + "-" + strconv.Itoa(i)
	return newCall("create_account", id, "customer "+id, initialBalance, initialBalance)
}

// bankMix is Caliper's "modify": the five operations alike often, on accounts
// that are made first.
type bankMix struct{ chooser }

func (w *bankMix) setup() []call {
	calls := make([]call, w.accounts)
	for i := range calls {
		id := strconv.Itoa(i)
		calls[i] = newCall("create_account", id, "customer "+id, initialBalance, initialBalance)
	}
	return calls
}

func (w *bankMix) call(i int) call {
	r := w.random(i)
	amount := strconv.Itoa(1 + r.IntN(maxAmount))
	one, other := w.pair(r)
	switch r.IntN(5) {
	case 0:
		return newCall("transact_savings", amount, one)
	case 1:
		return newCall("deposit_checking", amount, one)
	case 2:
		return newCall("send_payment", amount, one, other)
	case 3:
		return newCall("write_check", amount, one)
	default:
		return newCall("amalgamate", one, other)
	}
}

// pair draws two different accounts.
func (w *bankMix) pair(r *mathrand.Rand) (string, string) {
	one, other := w.pick(r), w.pick(r)
	if one == other {
		other = (other + 1) % w.accounts
	}
	return strconv.Itoa(one), strconv.Itoa(other)
}
