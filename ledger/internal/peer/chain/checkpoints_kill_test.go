package chain

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// victimFolder, when set, makes this test binary the process that is to be killed.
const victimFolder = "QIOI_TEST_CHECKPOINT_VICTIM"

// TestVictim commits without end, makes a checkpoint after nearly every block, and says
// each transaction that is durable.
func TestVictim(t *testing.T) {
	dir := os.Getenv(victimFolder)
	if dir == "" {
		t.Skip("the other half of TestKilledDuringCheckpoints")
	}
	w := streamWorld(t)
	raw, err := proto.Marshal(w.Genesis)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "genesis"), raw, 0o644))
	r := startRig(t, w, filepath.Join(dir, "ledger"), Options{CheckpointEvery: 1})
	r.saved.spill = 1
	value := make([]byte, 20_000) // a checkpoint then takes longer than a block
	for i := range 1000 {
		raw, id := w.Make(put(w, fmt.Sprint("key", i%300), fmt.Sprint(i, string(value))))
		r.add(raw)
		r.seal()
		r.status(id)
		fmt.Println("durable", id)
	}
}

// TestKilledDuringCheckpoints kills a process with SIGKILL at moments when it writes
// checkpoints; what it has reported is there, and the start from what it left equals a replay.
func TestKilledDuringCheckpoints(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	used := 0
	for kill := range 5 {
		dir := t.TempDir()
		told := killVictim(t, dir, 15+15*kill) // what is committed again below must fit into one block
		raw, err := os.ReadFile(filepath.Join(dir, "genesis"))
		require.NoError(t, err)
		genesis := &commonpb.Block{}
		require.NoError(t, proto.Unmarshal(raw, genesis))
		w := &peertest.World{T: t, Genesis: genesis}
		ledger := filepath.Join(dir, "ledger")
		plain := startRig(t, w, withoutCheckpoints(t, ledger), Options{CheckpointEvery: -1})
		r := startRig(t, w, ledger, Options{CheckpointEvery: 1})
		assert.Equal(t, plain.fingerprint(), r.fingerprint())
		assert.Equal(t, plain.Position(), r.Position())
		for _, id := range told {
			_, err := r.Find(id)
			assert.NoError(t, err, "%s was reported and is lost", id)
		}
		if r.covered > 0 {
			used++
		}
		// Every id is taken, whether it was on disk, in memory or in neither.
		again := 0
		for n := uint64(1); n < plain.Height(); n++ {
			block, err := plain.Block(n)
			require.NoError(t, err)
			r.add(block.Data.Data[0])
			again++
		}
		require.Eventually(t, func() bool { return r.durable() == r.Position() }, longest, time.Millisecond)
		t.Logf("killed after %d transactions, %d of them in a checkpoint", len(told), r.covered)
		require.NoError(t, plain.stop())
		require.NoError(t, r.stop())
		report, err := Inspect(ledger, false)
		require.NoError(t, err)
		assert.EqualValues(t, again, report.Codes["DUPLICATE_TXID"])
		for _, file := range report.IDs {
			assert.Empty(t, file.Problem)
		}
	}
	assert.Positive(t, used, "a checkpoint was used")
}

// killVictim runs the victim until it has reported n transactions.
func killVictim(t *testing.T, dir string, n int) (told []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victimFolder+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); len(told) < n && lines.Scan(); {
		var id string
		if _, err := fmt.Sscanf(lines.Text(), "durable %s", &id); err == nil {
			told = append(told, id)
		}
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Len(t, told, n)
	return told
}
