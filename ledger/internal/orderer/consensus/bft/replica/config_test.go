package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// TestALeaderGathersAsTheChannelIs, and not at all where nothing is to wait.
func TestALeaderGathersAsTheChannelIs(t *testing.T) {
	type waits struct{ pace, most, mark time.Duration }
	for _, c := range []struct {
		orderer channelconfig.Orderer
		want    waits
	}{
		{channelconfig.Orderer{Mode: channelconfig.Stream}, waits{4 * time.Millisecond, 24 * time.Millisecond, 10 * time.Millisecond}},
		{channelconfig.Orderer{Mode: channelconfig.Block, MaxMessageCount: 10}, waits{4 * time.Millisecond, 24 * time.Millisecond, 0}},
		{channelconfig.Orderer{Mode: channelconfig.Block, MaxMessageCount: 500}, waits{20 * time.Millisecond, 20 * time.Millisecond, 0}},
	} {
		s := consensus.Settings{Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{Orderer: c.orderer} }}
		for _, s.Unpaced = range []bool{false, true} {
			want := c.want
			if s.Unpaced {
				want = waits{}
			}
			cfg := configOf(s)
			assert.Equal(t, want, waits{time.Duration(cfg.Pace), time.Duration(cfg.MostPace), time.Duration(cfg.MarkWait)})
		}
	}
}

// TestLimitsFollowTheConfiguration in force, as each of an orderer's epochs begins.
func TestLimitsFollowTheConfiguration(t *testing.T) {
	bundle := &channelconfig.Bundle{Orderer: channelconfig.Orderer{
		Mode: channelconfig.Stream, BFT: channelconfig.BFTOptions{ViewChangeTimeout: 2 * time.Second, BatchTxs: 512, BatchBytes: 1 << 20},
	}}
	s := consensus.Settings{ID: 3, Channel: "ch", Founders: 4, Bundle: func() *channelconfig.Bundle { return bundle }}
	pbft, zyzzyva := configOf(s), configOfZyzzyva(s)
	bundle = &channelconfig.Bundle{Orderer: channelconfig.Orderer{
		Mode: channelconfig.Stream, BFT: channelconfig.BFTOptions{ViewChangeTimeout: time.Second, BatchTxs: 64, BatchBytes: 1 << 10},
	}}
	for range 2 {
		pbft, zyzzyva = pbft.InForce(), zyzzyva.InForce()
		assert.Equal(t, []int{64, 1 << 10, 64, 1 << 10}, []int{pbft.BatchTxs, pbft.BatchBytes, zyzzyva.BatchTxs, zyzzyva.BatchBytes})
		assert.Equal(t, []time.Duration{time.Second, 16 * time.Second, 50 * time.Millisecond}, []time.Duration{pbft.Timeout, pbft.MaxTimeout, pbft.SpareWait})
		assert.Equal(t, []time.Duration{time.Second, 16 * time.Second, 25 * time.Millisecond}, []time.Duration{zyzzyva.Timeout, zyzzyva.MaxTimeout, zyzzyva.Fast})
		assert.Equal(t, pbft.Group, zyzzyva.Group)
	}
}
