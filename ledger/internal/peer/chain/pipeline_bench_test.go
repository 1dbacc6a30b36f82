package chain

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// benchBlock is how many transactions a block of the benchmark has: a full virtual block.
const benchBlock = 100

// BenchmarkPipeline is a transaction's way through a peer, from its arrival until it is durable. CPU is the
// process's, the runtime's collection of garbage included.
func BenchmarkPipeline(b *testing.B) {
	for _, mode := range []struct {
		name string
		mode channelconfig.Mode
	}{{"stream", channelconfig.Stream}, {"block", channelconfig.Block}} {
		b.Run(mode.name, func(b *testing.B) {
			w := peertest.New(b, peertest.Options{Mode: mode.mode})
			made := make([][]byte, (b.N+benchBlock-1)/benchBlock*benchBlock)
			for i := range made {
				made[i] = w.Raw(put(w, string(rune('a'+i%26)), string(make([]byte, 1000))))
			}
			type seal struct {
				header   *commonpb.BlockHeader
				metadata *commonpb.BlockMetadata
			}
			var seals []seal
			orders := w.NewOrderer()
			for i := 0; i < len(made); i += benchBlock {
				header, metadata := orders.Seal(made[i : i+benchBlock])
				seals = append(seals, seal{header, metadata})
			}
			r := startRig(b, w, b.TempDir(), Options{CheckpointEvery: -1})
			before := cpu(b)
			b.ResetTimer()
			for i := 0; i < len(made); i += benchBlock {
				for _, raw := range made[i : i+benchBlock] {
					require.NoError(b, r.Add(context.Background(), raw))
				}
				require.NoError(b, r.Seal(context.Background(), seals[i/benchBlock].header, seals[i/benchBlock].metadata))
			}
			r.settle()
			b.StopTimer()
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(len(made)), "cpu-us/tx")
		})
	}
}

func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
