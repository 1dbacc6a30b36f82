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
