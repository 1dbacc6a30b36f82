// Package sim runs replicas of a protocol's core in one goroutine under a virtual clock: messages
// are lost, delayed, repeated and overtaken, replicas crash and lose what was not durable, clocks
// differ, and up to f replicas lie. The same seed gives the same run.
package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Protocol makes what runs.
type Protocol struct {
	// New starts a replica; group is that of the first epoch.
	New func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core
	// Draw makes New for one run; nil: New is the same in all.
	Draw func(rng *rand.Rand) func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core
	// Liar makes a replica lie; nil: none of this protocol's can.
	Liar func(rng *rand.Rand, id bft.ID, group bft.Group, oracle bft.Oracle) Liar
	// Client makes a client; nil: clients believe the replicas that apply. Address has a replica's answer to an entry's
	// clients for one of them.
	Client  func(group bft.Group, verify func(by bft.ID, data, signature []byte) bool) bft.Client
	Address func(m bft.Message, tx bft.Digest) bft.Message
	// HeldAtMost bounds View.Held.
	HeldAtMost int
	// PendingOfEach bounds View.Pending: so many for each replica that there is, for any of them may bring some.
	PendingOfEach int
	// Bound is how long after the faults all that was submitted is applied everywhere.
	Bound time.Duration
}

// Liar stands between a replica that follows the protocol and its links.
type Liar interface {
	// Says is what leaves in place of a message.
	Says(out bft.Outgoing) []bft.Outgoing
	// Hears is told of what arrives, and may say more.
	Hears(from bft.ID, m bft.Message) []bft.Outgoing
	// Schemes is what it says by itself, from time to time.
	Schemes() []bft.Outgoing
}

// world is one run.
type world struct {
	protocol Protocol
	plan     plan
	rng      *rand.Rand
	now      time.Duration
	events   events
	count    uint64 // of events, which orders those of one moment
	nodes    []*node
	group    bft.Group // of the first epoch

	order     []bft.Digest // the state's digest after each entry, as the first correct replica has it
	entries   []*bft.Entry
	submitted map[bft.Digest]*client
	clients   []*client
	members   []bft.ID // after the last entry in order
	configs   int      // that are in force by then

	steps int
	err   error
	trace func(format string, args ...any)
	heard func(from *node, m bft.Message) // what replicas send; nil: nobody listens
}

// mostSteps is far more than a run takes.
const mostSteps = 500_000

// client is one transaction's.
type client struct {
	tx     []byte
	digest bft.Digest
	done   bool // it is ordered

	id       bft.ID
	core     bft.Client // where the protocol has one
	accepted bool
	seq      uint64 // where, if it knows
	ticking  time.Duration
}

// firstClient is above the replicas' ids.
const firstClient bft.ID = 1 << 20

// event is something that is to happen.
type event struct {
	at      time.Duration
	number  uint64
	node    *node
	life    int // of the node; another one: it has crashed since
	message bft.Message
	from    bft.ID
	do      func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func (w *world) at(at time.Duration, e event) {
	w.count++
	e.at, e.number = at, w.count
	if e.node != nil {
		e.life = e.node.life
	}
	heap.Push(&w.events, e)
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s: "+format, append([]any{w.now}, args...)...)
	}
}

func (w *world) note(format string, args ...any) {
	if w.trace != nil {
		w.trace("%12s "+format, append([]any{w.now}, args...)...)
	}
}

// run lets the plan happen, and then waits until all is applied.
func (w *world) run() error {
	for w.err == nil && len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		if w.steps > mostSteps {
			w.fail("%d steps: the replicas keep each other busy; %s", w.steps, w.standing())
		}
		if w.now > w.plan.heal && w.settled() {
			return nil
		}
		if w.now > w.plan.heal+w.protocol.Bound {
			w.fail("not live: %s", w.standing())
			break
		}
		if e.node != nil && e.node.life != e.life {
			continue
		}
		switch {
		case e.message != nil:
			e.node.receive(e.from, e.message)
		case e.do != nil:
			e.do()
		}
	}
	if w.err == nil && !w.settled() {
		w.fail("nothing more happens: %s", w.standing())
	}
	return w.err
}

// settled reports whether all correct members have all that was submitted.
func (w *world) settled() bool {
	for _, c := range w.clients {
		if w.waits(c) {
			return false
		}
	}
	for _, id := range w.members {
		n := w.nodes[id-1]
		if n.liar == nil && (!n.up || len(n.state) < len(w.order) || w.plan.rivals && n.core.View().Pending > 0) {
			return false
		}
	}
	return true
}

// waits reports whether a client has not been told of its transaction, which may still be ordered.
func (w *world) waits(c *client) bool {
	return !w.outdated(c) && (!c.done || c.core != nil && !c.accepted)
}

// outdated reports whether a configuration has made a client's transaction invalid before it was ordered.
func (w *world) outdated(c *client) bool {
	_, until := span(c.tx)
	return w.plan.rivals && !c.done && until <= w.configs
}

func (w *world) standing() string {
	text := ""
	left := 0
	for _, c := range w.clients {
		if w.waits(c) {
			left++
		}
	}
	for _, n := range w.nodes {
		if n.core == nil {
			continue
		}
		v := n.core.View()
		text += fmt.Sprintf("; %d", n.id)
		if n.liar != nil {
			text += " lies"
		}
		text += fmt.Sprintf(" in view %d.%d active %t applied %d stable %d last %d pending %d", v.Group.Epoch, v.View, v.Active, v.Applied, v.Stable, v.Last, v.Pending)
	}
	return fmt.Sprintf("%d transactions left, %d entries%s", left, len(w.order), text)
}

// applied compares what a correct replica applies with what the others have.
func (w *world) applied(n *node, seq uint64, entry *bft.Entry, state bft.Digest) {
	if seq <= uint64(len(w.order)) {
		if w.order[seq-1] != state {
			w.fail("%d applies another entry %d: %q, where the first had %q", n.id, seq, entry.Txs, w.entries[seq-1].Txs)
		}
		return
	}
	w.note("%d is the first to apply %d: %q", n.id, seq, entry.Txs)
	w.order, w.entries = append(w.order, state), append(w.entries, entry)
	for _, tx := range entry.Txs {
		c := w.submitted[bft.TxDigest(tx)]
		if c == nil {
			w.fail("%d applies %q, which no client has submitted", n.id, tx)
			return
		}
		if !w.holds(tx, w.configs) {
			w.fail("%d applies %q, which does not hold after %d configurations", n.id, tx, w.configs)
			return
		}
		c.done = true
	}
	for _, c := range w.clients {
		w.checkAccepted(c, seq)
	}
	if entry.Config {
		w.configs++
		w.members = membersOf(entry.Txs[0], w.members)
		w.plan.joins(w, w.members)
		for _, c := range w.clients {
			if c.core != nil && !c.accepted {
				w.ask(c) // a client is of one group
			}
		}
	}
}
