package pbft_test

import (
	"testing"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

func TestEntriesAreRationed(t *testing.T) {
	cfg := pbft.Config{
		ID: 1, Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Overlap: 8, Pending: 100,
		PendingBytes: 1 << 30, Resend: time.Second,
		Limits: base.Limits{BatchTxs: 1, BatchBytes: 64 << 20, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	scripttest.Rationed{
		New:    func(o bft.Oracle) bft.Core { return pbft.New(cfg, o, bft.State{}, nil) },
		Resend: cfg.Resend,
		Status: &pbft.Status{Active: true},
		Carries: func(m bft.Message) bool {
			switch m.(type) {
			case *bft.Have, *pbft.PrePrepare:
				return true
			}
			return false
		},
	}.Test(t)
}
