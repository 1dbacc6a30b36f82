package sim

import (
	"math/rand/v2"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Options chooses among the faults.
type Options struct {
	Liars bool
	// Ends has several epochs in every run, and replicas crash and links break where one ends.
	Ends bool
	// Rivals has each configuration make another one invalid that is under way as well, and transactions.
	Rivals bool
	// Marks has some transactions be marks, of which an entry has one at most.
	Marks bool
	Trace func(format string, args ...any)
}

// Run lets one random schedule happen and says what was wrong with it.
func Run(p Protocol, seed uint64, options Options) error {
	rng := rand.New(rand.NewPCG(seed, 0x51))
	options.Liars = options.Liars && p.Liar != nil
	if p.Draw != nil {
		p.New = p.Draw(rand.New(rand.NewPCG(seed, 0x52)))
	}
	w := &world{
		protocol: p, rng: rng, plan: newPlan(rng, options), trace: options.Trace,
		submitted: map[bft.Digest]*client{},
	}
	w.group = bft.Group{Members: w.plan.groups[0]}
	w.members = w.group.Members
	last := bft.ID(0)
	for _, g := range w.plan.groups {
		last = max(last, g[len(g)-1])
	}
	for id := bft.ID(1); id <= last; id++ {
		n := &node{
			w: w, id: id, offset: upTo(rng, time.Hour), rate: 0.8 + rng.Float64()*0.4,
			txs: map[bft.Digest]uint64{}, coming: map[bft.Digest]bool{}, members: w.group.Members,
		}
		w.nodes = append(w.nodes, n)
	}
	for _, id := range w.plan.liars {
		n := w.nodes[id-1]
		n.liar = p.Liar(rand.New(rand.NewPCG(seed, id)), id, w.group, oracle{n})
		w.note("%d lies", id)
	}
	for _, id := range w.group.Members {
		w.at(upTo(rng, 100*time.Millisecond), event{node: w.nodes[id-1], do: w.nodes[id-1].start})
	}
	w.arrange()
	return w.run()
}
