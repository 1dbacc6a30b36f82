package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// workload is `load` in the background; it notes what it was told is committed.
type workload struct {
	g      *grid
	cmd    *exec.Cmd
	said   bytes.Buffer
	record string
}

// load goes on until it is stopped: how long a test takes is the host's matter.
func (g *grid) load(args ...string) *workload {
	g.t.Helper()
	w := &workload{g: g, record: g.path(fmt.Sprintf("told-%d", time.Now().UnixNano()))}
	w.cmd = g.command(context.Background(), "load", append([]string{
		"--network", g.path("network.json"), "--duration", "2h", "--warmup", "0s", "--timeout", "5s", "--progress", "0s", "--record", w.record,
	}, args...)...)
	w.cmd.Stderr = &w.said
	require.NoError(g.t, w.cmd.Start())
	g.t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
	})
	return w
}

// stop ends it and gives "ID BLOCK" of all that was reported as committed and valid. An interrupted run exits with 0,
// also if transactions failed while nodes were away.
func (w *workload) stop() (told []string) {
	w.g.t.Helper()
	require.NoError(w.g.t, w.cmd.Process.Signal(os.Interrupt))
	require.NoError(w.g.t, w.cmd.Wait(), "%s", &w.said)
	file, err := os.Open(w.record)
	require.NoError(w.g.t, err)
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		told = append(told, lines.Text())
	}
	require.NoError(w.g.t, lines.Err())
	require.NotEmpty(w.g.t, told, "clients were told of nothing: there is nothing that could be lost")
	return told
}

// commits has clients commit a few transactions, and gives them.
func (g *grid) commits(args ...string) []string {
	g.t.Helper()
	w := g.load(append([]string{"--clients", "2"}, args...)...)
	g.progress("peer0-org1", 30)
	return w.stop()
}

// progress waits until a peer has committed n more transactions. A series that it does not show counts as none.
func (g *grid) progress(peer string, n float64) {
	g.t.Helper()
	const series, code = "ledger_transaction_count", `validation_code="VALID"`
	g.awaitReady(peer)
	start := g.surely(peer, series, code)
	g.eventually(fmt.Sprintf("%s commits %v more", peer, n), func() bool { return g.counter(peer, series, code) >= start+n })
}

// settle waits until all peers have the blocks of which clients were told, and nothing moves for a while: what no client was
// told of may have been on its way.
func (g *grid) settle(told []string) {
	g.t.Helper()
	least := lastBlock(g.t, told)
	last, same := "", 0
	g.eventually("all peers have what clients were told, and the same height", func() bool {
		heights, now := map[float64]bool{}, ""
		for _, peer := range g.named("peer") {
			height, answers := g.sample(peer, "ledger_blockchain_height")
			txs, alsoAnswers := g.sample(peer, "ledger_transaction_count")
			if !answers || !alsoAnswers || height <= least {
				same = 0
				return false
			}
			heights[height] = true
			now += fmt.Sprintf("%s: %v blocks, %v transactions since it started. ", peer, height, txs)
		}
		if now != last || len(heights) != 1 {
			last, same = now, 0
			return false
		}
		same++
		return same > 25 // half a second: longer than a virtual block stays open
	})
}

// lastBlock is the highest of the blocks that clients were told ("ID BLOCK").
func lastBlock(t testing.TB, told []string) (highest float64) {
	t.Helper()
	for _, line := range told {
		_, block, _ := strings.Cut(line, " ")
		number, err := strconv.ParseFloat(block, 64)
		require.NoError(t, err, line)
		highest = max(highest, number)
	}
	return highest
}

// agree stops the network and holds all ledgers against each other and against what clients were told.
func (g *grid) agree(told []string) chain.Report {
	g.t.Helper()
	g.settle(told)
	g.stopAll()
	peers := g.named("peer")
	first := g.inspect(peers[0])
	for _, peer := range peers[1:] {
		other := g.inspect(peer)
		assert.Equal(g.t, first.Verdicts, other.Verdicts, "verdicts of %s and %s", peers[0], peer)
		bare := first
		bare.Verdicts, other.Verdicts = nil, nil
		bare.Checkpoints, other.Checkpoints, bare.IDs, other.IDs = nil, nil, nil, nil // each peer makes its own
		assert.Equal(g.t, bare, other, "%s and %s", peers[0], peer)
	}
	for _, wrong := range contradictions(first.Verdicts, told) {
		assert.Fail(g.t, wrong)
	}
	return first
}

// contradictions are what a chain's verdicts ("BLOCK NUMBER VERDICT ID") say against themselves, and against what clients
// were told ("ID BLOCK"): a transaction is valid once in the whole chain, and in the block that was told.
func contradictions(verdicts, told []string) (out []string) {
	valid := map[string]string{}
	for _, line := range verdicts {
		f := strings.Fields(line)
		if len(f) != 4 || f[2] != "VALID" {
			continue
		}
		if before, twice := valid[f[3]]; twice {
			out = append(out, fmt.Sprintf("%s is valid twice, in blocks %s and %s", f[3], before, f[0]))
		}
		valid[f[3]] = f[0]
	}
	for _, line := range told {
		id, block, _ := strings.Cut(line, " ")
		switch now, is := valid[id]; {
		case !is:
			out = append(out, fmt.Sprintf("%s was reported as committed in block %s and is lost", id, block))
		case now != block:
			out = append(out, fmt.Sprintf("%s was reported as committed in block %s and is in %s", id, block, now))
		}
	}
	return out
}

// TestContradictions: what the crash tests look for would be found.
func TestContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		verdicts, told []string
		want           string
	}{
		"none":                       {[]string{"1 0 VALID a", "1 1 DUPLICATE_TXID a", "2 0 VALID b", "2 1 MVCC_READ_CONFLICT c"}, []string{"a 1", "b 2"}, ""},
		"twice in one block":         {[]string{"1 0 VALID a", "1 1 VALID a"}, nil, "valid twice"},
		"twice in two blocks":        {[]string{"1 0 VALID a", "2 0 VALID a"}, nil, "valid twice"},
		"lost":                       {[]string{"1 0 VALID a"}, []string{"b 1"}, "is lost"},
		"invalid after all":          {[]string{"1 0 MVCC_READ_CONFLICT a"}, []string{"a 1"}, "is lost"},
		"in another block than told": {[]string{"2 0 VALID a"}, []string{"a 1"}, "is in 2"},
	} {
		found := contradictions(c.verdicts, c.told)
		if c.want == "" {
			assert.Empty(t, found, name)
			continue
		}
		if assert.Len(t, found, 1, name) {
			assert.Contains(t, found[0], c.want, name)
		}
	}
}

// tear cuts bytes off the end of a peer's ledger, as if its last write had not been finished.
func (g *grid) tear(peer string, bytes int64) {
	g.t.Helper()
	segments, err := filepath.Glob(filepath.Join(g.ledger(peer), "segment-*.blk"))
	require.NoError(g.t, err)
	require.NotEmpty(g.t, segments)
	last := segments[len(segments)-1]
	info, err := os.Stat(last)
	require.NoError(g.t, err)
	require.NoError(g.t, os.Truncate(last, info.Size()-bytes))
}

const kv = "kv=OR('Org1MSP.peer','Org2MSP.peer')"

// TestKillPeersAndOrderersUnderLoad kills nodes in turn while clients write to a few keys.
func TestKillPeersAndOrderersUnderLoad(t *testing.T) {
	for _, mode := range []string{"stream", "block"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			// Ids and states go to disk all the time, so kills come in the middle of that too.
			g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv, "--mode", mode, "--batch-timeout", "200ms", "--checkpoint-interval", "20")
			w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.progress("peer0-org1", 50)
			for _, victim := range []string{"peer0-org1", "orderer1", "peer0-org2", "orderer2", "orderer3"} {
				witness := "peer0-org1"
				if victim == witness {
					witness = "peer0-org2"
				}
				g.kill(victim, syscall.SIGKILL)
				g.progress(witness, 10)
				if strings.HasPrefix(victim, "peer") {
					g.tear(victim, 100)
				}
				g.start(victim)
				g.awaitReady(victim)
			}
			for _, peer := range g.named("peer") { // all are back
				g.progress(peer, 100)
			}
			told := w.stop()
			require.NotEmpty(t, told)
			report := g.agree(told)
			t.Logf("told %d, ledger: %v", len(told), report.Codes)
			assert.NotEmpty(t, report.IDs)
			for _, file := range append(report.IDs, report.Checkpoints...) {
				assert.Empty(t, file.Problem, file.File)
			}
		})
	}
}

// TestKillEverythingAtOnce is a power cut, but for the disks.
func TestKillEverythingAtOnce(t *testing.T) {
	g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv, "--checkpoint-interval", "20")
	w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "100")
	g.progress("peer0-org1", 100)
	g.killAll()
	for _, peer := range g.named("peer") { // for clients that have lived through it
		g.progress(peer, 100)
	}
	told := w.stop()
	g.agree(append(told, g.commits("--chaincode", "kv")...)) // it commits again
}
