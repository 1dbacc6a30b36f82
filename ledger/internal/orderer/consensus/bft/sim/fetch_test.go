package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// asking is a core that asks for states one after the other, and counts what it is told of.
type asking struct {
	asks    []bft.Fetch
	fetched []uint64
}

// Step implements bft.Core.
func (a *asking) Step(_ bft.Time, in bft.Input) (e bft.Effects) {
	switch in := in.(type) {
	case bft.Fetched:
		a.fetched = append(a.fetched, in.Seq)
	case bft.Tick:
		if len(a.asks) > 0 {
			e.Fetch, a.asks = &a.asks[0], a.asks[1:]
		}
	}
	return e
}

// Records implements bft.Core.
func (*asking) Records() []bft.Record { return nil }

// View implements bft.Core.
func (*asking) View() bft.View { return bft.View{} }

// fetching is a group whose replica 1 has entries, which 2 is to ask for.
func fetching(seed uint64, perEntry time.Duration) (w *world, core *asking) {
	core = &asking{}
	group := bft.Group{Members: members(4)}
	w = &world{
		rng: rand.New(rand.NewPCG(seed, 0x51)), submitted: map[bft.Digest]*client{}, group: group, members: group.Members,
		plan: plan{heal: time.Hour, near: time.Millisecond, far: time.Millisecond, slowDisk: time.Millisecond, perEntry: perEntry},
	}
	for _, id := range w.members {
		n := &node{w: w, id: id, rate: 1, up: true, core: core, txs: map[bft.Digest]uint64{}, coming: map[bft.Digest]bool{}, members: w.members}
		w.nodes = append(w.nodes, n)
	}
	for i := range 20 {
		n, c := w.nodes[0], &client{tx: []byte{byte(i)}}
		c.digest = bft.TxDigest(c.tx)
		w.submitted[c.digest] = c
		entry := &bft.Entry{}
		entry.Add(c.tx, c.digest)
		n.add(entry)
		w.applied(n, uint64(i)+1, entry, n.state[i])
		core.asks = append(core.asks, bft.Fetch{
			Certificate: bft.Certificate{
				Checkpoint: bft.Checkpoint{Seq: uint64(i) + 1, State: n.state[i]}, Signatures: []bft.Signature{{By: 1}, {By: 3}, {By: 4}},
			},
		})
	}
	return w, core
}

// happens lets everything happen that is to come, and returns when that was done.
func happens(w *world) time.Duration {
	w.plan.heal = w.now
	w.protocol.Bound = time.Hour
	w.clients = []*client{{}} // who is never done, so that nothing ends the run
	_ = w.run()
	return w.now
}

// TestEachFetchEnds, one after the other, as the core is promised.
func TestEachFetchEnds(t *testing.T) {
	for _, perEntry := range []time.Duration{0, time.Second} {
		w, core := fetching(1, perEntry)
		core.asks = []bft.Fetch{core.asks[4], core.asks[9]}
		for range 2 {
			w.nodes[1].step(bft.Tick{})
		}
		happens(w)
		assert.Equal(t, []uint64{5, 10}, core.fetched, "%s each", perEntry)
		assert.Len(t, w.nodes[1].state, 10)
	}
}

// TestOnlyWhoServesTakesLong: a replica that is asked in vain has nothing to send.
func TestOnlyWhoServesTakesLong(t *testing.T) {
	for seed := range uint64(10) {
		w, core := fetching(seed, time.Second)
		core.asks = core.asks[19:] // replicas 3 and 4 have it not
		w.nodes[1].step(bft.Tick{})
		took := happens(w)
		require.Equal(t, []uint64{20}, core.fetched)
		assert.Less(t, took, 21*time.Second, "seed %d", seed)
	}
}
