package orderer

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// benchCluster is three orderers, each a process of its own, with a leader.
func benchCluster(b *testing.B) (c *testCluster, leader int) {
	c = newCluster(b, func(o *setup.Options) { o.Pprof = true })
	return c, c.quickest(b)
}

// sequencerBench is three facades and their sequencer, each a process of its own.
func sequencerBench(b *testing.B, memory bool) (c *testCluster, quickest int) {
	c, at := newSequencerCluster(b, func(o *setup.Options) { o.Pprof, o.SequencerMemory = true, memory })
	c.spawnSequencer(at)
	return c, c.quickest(b)
}

// quickest starts three orderers, and gives the one that answers first.
func (c *testCluster) quickest(b *testing.B) (leader int) {
	for i := range 3 {
		c.spawn(i)
	}
	for i := range 3 { // one may still be starting when the others order
		c.orderAt(i, "first")
	}
	// The leader answers without a second way over the network: it is the quickest.
	best := time.Hour
	for i := range 3 {
		start := time.Now()
		for n := range 50 {
			_, err := c.broadcast(context.Background(), i, c.message(ch, fmt.Sprint(n)))
			require.NoError(b, err)
		}
		if took := time.Since(start); took < best {
			best, leader = took, i
		}
	}
	return leader
}

// BenchmarkBroadcastToFollow is one closed-loop client: from the envelope's send
// until a follower of the same orderer, and until the client's answer.
func BenchmarkBroadcastToFollow(b *testing.B) {
	b.Run("raft", func(b *testing.B) {
		c, leader := benchCluster(b)
		broadcastToFollow(b, c, map[string]int{"leader": leader, "follower": (leader + 1) % 3})
	})
	for name, memory := range map[string]bool{"sequencer": false, "sequencer-memory": true} {
		b.Run(name, func(b *testing.B) {
			c, at := sequencerBench(b, memory)
			broadcastToFollow(b, c, map[string]int{"facade": at})
		})
	}
}

func broadcastToFollow(b *testing.B, c *testCluster, orderers map[string]int) {
	for name, at := range orderers {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stream, err := ordererpb.NewAtomicBroadcastClient(c.conn(at)).Broadcast(ctx)
			require.NoError(b, err)
			height, err := c.blocks(at, ch, 1, 1)
			require.NoError(b, err)
			require.NotEmpty(b, height)
			follow := c.follow(ctx, at, ch, &streampb.Position{Block: 1})
			text := string(make([]byte, 3000))
			c.order(c.message(ch, text))
			seen := make(chan time.Time, 1024)
			go func() {
				for {
					batch, err := follow.Recv()
					if err != nil {
						return
					}
					for _, item := range batch.Items {
						if len(item.GetTx()) > 3000 {
							seen <- time.Now()
						}
					}
				}
			}()
			for range countLarge(b, seen) { // what earlier runs have left
			}
			var toFollow, toAnswer []time.Duration
			for b.Loop() {
				env := c.message(ch, text)
				start := time.Now()
				require.NoError(b, stream.Send(env))
				r, err := stream.Recv()
				require.NoError(b, err)
				require.Equal(b, commonpb.Status_SUCCESS, r.Status, r.Info)
				toAnswer = append(toAnswer, time.Since(start))
				toFollow = append(toFollow, (<-seen).Sub(start))
			}
			report(b, toFollow, "follow")
			report(b, toAnswer, "answer")
		})
	}
}

func countLarge(b *testing.B, seen <-chan time.Time) []time.Time {
	b.Helper()
	var out []time.Time
	for {
		select {
		case at := <-seen:
			out = append(out, at)
		case <-time.After(300 * time.Millisecond):
			return out
		}
	}
}

func report(b *testing.B, all []time.Duration, name string) {
	slices.Sort(all)
	for _, q := range []int{50, 95, 99} {
		b.ReportMetric(float64(all[len(all)*q/100].Microseconds()), fmt.Sprintf("%s-p%d-us", name, q))
	}
}

// BenchmarkThroughput is clients that send ahead of the answers. The envelopes are
// signed beforehand: what is measured is the orderers.
func BenchmarkThroughput(b *testing.B) {
	c, leader := benchCluster(b)
	const clients, each = 4, 5000
	envelopes := make([][]*commonpb.Envelope, clients)
	for i := range envelopes {
		for range each {
			envelopes[i] = append(envelopes[i], c.message(ch, "0123456789"))
		}
	}
	for b.Loop() {
		start := time.Now()
		cpu := cpuOf()
		var group errgroup.Group
		for _, own := range envelopes {
			stream, err := ordererpb.NewAtomicBroadcastClient(c.conn(leader)).Broadcast(context.Background())
			require.NoError(b, err)
			group.Go(func() error {
				for _, env := range own {
					if err := stream.Send(env); err != nil {
						return err
					}
				}
				return nil
			})
			group.Go(func() error {
				for range own {
					if r, err := stream.Recv(); err != nil || r.Status != commonpb.Status_SUCCESS {
						return fmt.Errorf("answer %v, error %v", r, err)
					}
				}
				return nil
			})
		}
		require.NoError(b, group.Wait())
		b.ReportMetric(clients*each/time.Since(start).Seconds(), "tx/s")
		b.ReportMetric(float64((cpuOf()-cpu).Microseconds())/(clients*each), "client-cpu-us/tx")
	}
}

func cpuOf() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
