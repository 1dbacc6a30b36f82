package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// Orderers that lie, of four or of seven, in whole networks: to the other orderers, to peers, to clients. A liar among the
// orderers is the test binary of package orderer, whose replica has every bad habit. A liar towards peers and clients
// stands in an orderer's place, with its certificate.

// all has every case run, and not the representative ones alone: `make byzantine`.
var all = os.Getenv("QIOI_BYZANTINE") != ""

// selected skips what `make test` has no time for.
func selected(t *testing.T, representative bool) {
	t.Helper()
	if !all && !representative {
		t.Skip("make byzantine runs it")
	}
}

// liarBinary is the orderer that lies, built once.
func liarBinary(t testing.TB) string {
	t.Helper()
	path, err := builtLiar()
	require.NoError(t, err)
	return path
}

var builtLiar = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "liar")
	out, err := exec.Command("go", "test", "-c", "-o", path, "../internal/orderer").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

// repliesTo are what a liar answers clients.
type repliesTo struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	times *atomic.Int64
}

// Broadcast says SUCCESS to everything, and orders nothing.
func (r *repliesTo) Broadcast(stream ordererpb.AtomicBroadcast_BroadcastServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		if err := stream.Send(&ordererpb.BroadcastResponse{Status: commonpb.Status_SUCCESS}); err != nil {
			return nil
		}
		r.times.Add(1)
	}
}

// swapped hands on transactions in another order: each two change places.
func swapped() lie {
	var first *streampb.Item
	return func(items []*streampb.Item) (out []*streampb.Item) {
		for _, item := range items {
			switch {
			case item.GetTx() == nil:
				if first != nil {
					out = append(out, first)
				}
				out, first = append(out, item), nil
			case first == nil:
				first = item
			default:
				out, first = append(out, item, first), nil
			}
		}
		return out
	}
}

func otherHash(w *streampb.Word) *streampb.Word {
	return &streampb.Word{Block: w.GetBlock(), Tx: w.GetTx(), Hash: []byte("lie")}
}

// truth is no lie.
func truth() lie { return func(items []*streampb.Item) []*streampb.Item { return items } }

// toPeers are lies that peers and clients are told. Each comes with SUCCESS for whatever a client brings.
var toPeers = map[string]struct {
	liar           func(*liar)
	reason         string // the peer that asks it first logs it
	representative bool
}{
	"another order, with the true hashes": {liar: func(l *liar) { l.lie = swapped }, reason: "is no longer followed", representative: true},
	"another order, and no hashes": {
		liar:   func(l *liar) { l.lie, l.word = swapped, func(*streampb.Word) *streampb.Word { return nil } },
		reason: "is no longer followed",
	},
	"two transactions as one":   {liar: func(l *liar) { l.lie = lies["two transactions as one"].lie }, reason: "is no longer followed"},
	"no seal":                   {liar: func(l *liar) { l.lie = lies["no seal"].lie }, reason: "is no longer followed"},
	"nothing after a while":     {liar: func(l *liar) { l.lie = lies["nothing after a while"].lie }, reason: "it withholds block"},
	"other hashes":              {liar: func(l *liar) { l.word = otherHash }, reason: "is no longer followed"},
	"a flood of hashes":         {liar: func(l *liar) { l.flood = 200 }},
	"everything, but very late": {liar: func(l *liar) { l.pace = 300 * time.Millisecond }},
}

// TestALiarTowardsPeersAndClients is one of four orderers, the first that a peer asks, and one of the first two to which its
// gateway brings transactions. Nothing false is told, and commits go on.
func TestALiarTowardsPeersAndClients(t *testing.T) {
	for name, c := range toPeers {
		t.Run(name, func(t *testing.T) {
			selected(t, c.representative)
			const victim = "peer0-org3" // it asks the second orderer first
			g := newGrid(t, append(bft, "--orgs", "3")...)
			w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.progress(victim, 30)
			g.kill(victim, syscall.SIGTERM)
			place := g.firstFollowed(victim)
			honest := slices.DeleteFunc(g.named("orderer"), func(name string) bool { return name == place })
			l := &liar{upstream: streampb.NewStreamClient(g.user().dial(honest[0])), lie: truth, replies: true}
			c.liar(l)
			g.replace(place, l)
			g.recovers("peer0-org2", "one of four is a liar")
			g.start(victim)
			if c.reason != "" {
				g.leaves(victim, g.node(place).Address, c.reason)
			}
			g.progress(victim, 200)
			g.eventually("peers and clients are told lies", func() bool { return l.lied.Load() > 0 && l.replied.Load() > 0 })
			report := g.agree(w.stop())
			t.Logf("ledger: %v", report.Codes)
		})
	}
}

// leaves waits until a peer has left a liar for that reason. One from which it took a part of a block only, as after a restart
// amid one, is left with what it sent taken back: the part before may have been the lie.
func (g *grid) leaves(peer, liar, reason string) {
	g.t.Helper()
	takenBack := fmt.Sprintf("orderer %s: %s", liar, chain.ErrRewound)
	g.eventually(peer+" logs "+reason, func() bool {
		log, err := os.ReadFile(g.path(g.node(peer).Log))
		return err == nil && (strings.Contains(string(log), reason) || strings.Contains(string(log), takenBack))
	})
}

// certain are lies that a replica tells of itself, whatever others do.
var certain = []string{"withholds", "garbles", "replays", "rushes", "floods"}

// liesOf is the file in which each lie of an orderer is a line.
func (g *grid) liesOf(orderer string) string { return g.path(orderer + ".lies") }

// told is how often an orderer has told each lie.
func (g *grid) told(orderer string) map[string]int {
	g.t.Helper()
	raw, err := os.ReadFile(g.liesOf(orderer))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(g.t, err)
	}
	times := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		times[strings.TrimSpace(line)]++
	}
	return times
}

// goesOnBeside has all peers make progress while an orderer tells each lie that it surely can.
func (g *grid) goesOnBeside(liar string, progress float64) {
	g.t.Helper()
	before := g.told(liar)
	for _, peer := range g.named("peer") {
		g.progress(peer, progress)
	}
	g.eventually(liar+" lies", func() bool {
		now := g.told(liar)
		return !slices.ContainsFunc(certain, func(lie string) bool { return now[lie] == before[lie] })
	})
	g.t.Logf("%s: %v, and before %v", liar, g.told(liar), before)
}

// TestALiarAmongTheOrderers has every bad habit of a replica: it equivocates, votes twice, withholds, forges, repeats what is old,
// floods, and asks for ever new views. It leads the first view, or the second.
func TestALiarAmongTheOrderers(t *testing.T) {
	for _, c := range []struct{ mode, liar string }{{"stream", "orderer1"}, {"stream", "orderer2"}, {"block", "orderer1"}, {"block", "orderer2"}} {
		t.Run(c.mode+" "+c.liar, func(t *testing.T) {
			selected(t, false) // package orderer has one such among orderers alone
			g := newGrid(t, append(bft, "--mode", c.mode, "--batch-timeout", "200ms")...)
			g.kill(c.liar, syscall.SIGKILL)
			g.liars[c.liar] = "1"
			g.start(c.liar)
			w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.goesOnBeside(c.liar, 100)
			g.kill(c.liar, syscall.SIGKILL)
			g.recovers("peer0-org1", "the liar is killed")
			g.start(c.liar)
			g.goesOnBeside(c.liar, 100)
			told := w.stop()
			require.NotEmpty(t, told)
			g.kill(c.liar, syscall.SIGKILL) // what it would say at its end is no matter
			report := g.agree(told)
			t.Logf("told %d, ledger: %v", len(told), report.Codes)
		})
	}
}

// TestTwoOfSevenLie: one to the other orderers, one to peers and clients.
func TestTwoOfSevenLie(t *testing.T) {
	selected(t, false)
	const victim = "peer0-org2" // it asks the third orderer first, to which its gateway brings transactions as well
	g := newGrid(t, "--consenter", "bft", "--orderers", "7", "--peers-per-org", "1", "--chaincode", kv)
	told := g.commits("--chaincode", "kv")
	place := g.firstFollowed(victim)
	honest := slices.DeleteFunc(g.named("orderer"), func(name string) bool { return name == place })
	other := honest[0]
	g.kill(victim, syscall.SIGTERM)
	l := &liar{upstream: streampb.NewStreamClient(g.user().dial(honest[1])), lie: swapped, replies: true}
	g.replace(place, l)
	g.kill(other, syscall.SIGKILL)
	g.liars[other] = "1"
	g.start(other)
	g.start(victim)
	w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	g.goesOnBeside(other, 200)
	g.eventually("peers and clients are told lies", func() bool { return l.lied.Load() > 0 && l.replied.Load() > 0 })
	told = append(told, w.stop()...)
	g.kill(other, syscall.SIGKILL)
	g.agree(told)
}
