package chain

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// sealedAt is how many transactions a virtual block of BenchmarkPipelining has.
const sealedAt = 50

// BenchmarkPipelining is Fig. 6 of StreamChain's workshop paper on one peer: transactions a second by workers for
// signatures, with the ledger in memory and on a disk, through the pipeline and one at a time. A transaction that is alone
// is sent when the one before is durable, so no two stages work at once. QIOI_BENCH_DISK names a folder on a disk; without
// it the disk's cases are left out.
func BenchmarkPipelining(b *testing.B) {
	for _, store := range []struct{ name, folder string }{{"memory", "/dev/shm"}, {"disk", os.Getenv("QIOI_BENCH_DISK")}} {
		if store.folder == "" {
			continue
		}
		for _, workers := range []int{1, 2} {
			for _, alone := range []bool{false, true} {
				way := "pipeline"
				if alone {
					way = "one-at-a-time"
				}
				b.Run(fmt.Sprintf("%s/workers=%d/%s", store.name, workers, way), func(b *testing.B) {
					pass(b, store.folder, workers, alone)
				})
			}
		}
	}
}

func pass(b *testing.B, folder string, workers int, alone bool) {
	w := streamWorld(b)
	made, ids := make([][]byte, b.N), make([]string, b.N)
	for i := range made {
		made[i], ids[i] = w.Make(put(w, fmt.Sprint(i), string(make([]byte, 1000))))
	}
	dir, err := os.MkdirTemp(folder, "qioi-bench-")
	require.NoError(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := startRig(b, w, dir, Options{Workers: workers, CheckpointEvery: -1})
	b.ResetTimer()
	for i, raw := range made {
		r.add(raw)
		if alone {
			_, err := r.Status(context.Background(), ids[i])
			require.NoError(b, err)
		}
		if len(r.open) == sealedAt {
			r.seal()
		}
	}
	_, err = r.Status(context.Background(), ids[len(ids)-1])
	require.NoError(b, err)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}
