package replica

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestACutMayBeOrderedAgain: a liar could otherwise have the cuts of blocks to come ordered, and these would stay open
// beyond their time.
func TestACutMayBeOrderedAgain(t *testing.T) {
	o := newOracle(consensus.Settings{}, nil)
	tx, cut := []byte("tx"), cutOf(7)
	o.applied(&bft.Entry{Txs: [][]byte{cut, tx}})
	assert.True(t, o.Known(bft.TxDigest(tx)))
	assert.False(t, o.Known(bft.TxDigest(cut)))
}

// TestAnEntryHasOneCut, because an entry of the log has room for no more.
func TestAnEntryHasOneCut(t *testing.T) {
	o := newOracle(consensus.Settings{}, nil)
	for cuts := range 4 {
		e := &bft.Entry{}
		for block := range cuts {
			e.Txs = append(e.Txs, cutOf(uint64(block)))
		}
		assert.Equal(t, cuts == 1, e.Proper(o, 8, 1<<20), cuts)
	}
}

// judging is a host that counts what it is asked to check, and finds some of it bad.
type judging struct {
	consensus.Host
	bad    string
	checks int
}

func (j *judging) Check(tx []byte) error {
	j.checks++
	if string(tx) == j.bad {
		return errors.New("nobody has signed it")
	}
	return nil
}

// TestATransactionIsCheckedOnce under each configuration, good or bad: proposals of it come again with each view.
func TestATransactionIsCheckedOnce(t *testing.T) {
	bundle := &channelconfig.Bundle{Sequence: 3}
	host := &judging{bad: "forged"}
	o := newOracle(consensus.Settings{Bundle: func() *channelconfig.Bundle { return bundle }}, host)
	verdicts := func() (good, bad bool) {
		_, good = o.Check([]byte("good"))
		_, bad = o.Check([]byte("forged"))
		return good, bad
	}
	for sequence, checks := range []int{2, 4} {
		bundle = &channelconfig.Bundle{Sequence: uint64(3 + sequence)}
		for range 3 {
			good, bad := verdicts()
			assert.True(t, good)
			assert.False(t, bad)
			assert.Equal(t, checks, host.checks)
		}
	}
	o.checked(bft.TxDigest([]byte("submitted")), consensus.Proposal{Tx: []byte("submitted"), Sequence: bundle.Sequence})
	_, good := o.Check([]byte("submitted"))
	assert.True(t, good)
	assert.Equal(t, 4, host.checks, "the orderer has checked what it submits")
	o.checked(bft.TxDigest([]byte("older")), consensus.Proposal{Tx: []byte("older"), Sequence: bundle.Sequence - 1})
	o.Check([]byte("older"))
	assert.Equal(t, 5, host.checks, "under an older configuration that does not count")
}
