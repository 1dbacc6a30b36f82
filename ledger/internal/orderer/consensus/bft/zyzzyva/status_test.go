package zyzzyva_test

import (
	"testing"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

func TestEntriesAreRationed(t *testing.T) {
	cfg := zyzzyva.Config{
		ID: 1, Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Overlap: 8, Pending: 100,
		PendingBytes: 1 << 30, Resend: time.Second,
		Limits: base.Limits{BatchTxs: 1, BatchBytes: 64 << 20, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	scripttest.Rationed{
		New:    func(o bft.Oracle) bft.Core { return zyzzyva.New(cfg, o, bft.State{}, nil) },
		Resend: cfg.Resend,
		Status: &zyzzyva.Status{Active: true},
		Carries: func(m bft.Message) bool {
			switch m.(type) {
			case *bft.Have, *zyzzyva.Order:
				return true
			}
			return false
		},
	}.Test(t)
}
