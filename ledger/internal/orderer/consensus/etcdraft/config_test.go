package etcdraft

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// shown is a host that registers series.
type shown struct {
	machine
	registry *prometheus.Registry
}

func (s *shown) Registry() prometheus.Registerer { return s.registry }

// TestEachKindGivesASoundConfiguration, in both modes.
func TestEachKindGivesASoundConfiguration(t *testing.T) {
	for _, o := range []channelconfig.Orderer{{Mode: channelconfig.Stream}, {Mode: channelconfig.Block, MaxMessageCount: 500}} {
		o.Raft = channelconfig.RaftOptions{TickInterval: time.Second, ElectionTick: 10, HeartbeatTick: 1, SnapshotInterval: 1}
		s := consensus.Settings{Channel: "ch", ID: 1, Founders: 1, Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{Orderer: o} }}
		for _, kind := range []consensus.Kind{Raft, Solo} {
			for _, s.Unpaced = range []bool{false, true} {
				assert.Equal(t, s.Unpaced, configOf(s).Delays == Delays{})
				s.Dir = t.TempDir()
				host := &shown{registry: prometheus.NewRegistry()}
				c, err := kind.Open(s, host)
				require.NoError(t, err)
				families, err := host.registry.Gather()
				require.NoError(t, err)
				assert.Len(t, families, 3, "the queues' depths, items and waits")
				require.NoError(t, c.(*Node).close())
			}
		}
	}
}

func TestAWrongConfigurationIsRefusedWithAllReasons(t *testing.T) {
	_, err := Open(Config{Channel: "ch", Voters: []uint64{1, 2}, Delays: Delays{Pace: 2, MostPace: 1}}, &machine{})
	for _, want := range []string{
		"channel ch", "id 0", "no folder", "voters [1 2]", "tick interval 0s", "0 ticks before", "0 bytes between", "no time to cut", "no number of the configuration", "delays {Pace:2ns MostPace:1ns",
	} {
		assert.ErrorContains(t, err, want)
	}
}
