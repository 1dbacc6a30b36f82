package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// ask has the client's core bring its transaction to the replicas.
func (w *world) ask(c *client) {
	members := w.members
	epoch := uint64(0)
	for i, e := range w.entries {
		if e.Config {
			epoch = uint64(i) + 1
		}
	}
	c.core = w.protocol.Client(bft.Group{Epoch: epoch, Members: members}, func(by bft.ID, data, signature []byte) bool {
		return string(signature) == string(sign(by, data))
	})
	w.submitted[c.digest] = c
	w.note("client %d has %q", c.id, c.tx)
	w.stepClient(c, bft.Submit{Tx: c.tx})
}

func (w *world) stepClient(c *client, in bft.Input) {
	effects := c.core.Step(w.now+1, in)
	for _, out := range effects.Send {
		w.carry(c.id, out)
	}
	for _, a := range effects.Accepted {
		if a.Tx != c.digest || c.accepted {
			w.fail("client %d accepts what it has not asked for", c.id)
			return
		}
		w.note("client %d accepts %q at %d, %d", c.id, c.tx, a.Seq, a.How)
		c.accepted, c.seq = true, a.Seq
		w.checkAccepted(c, c.seq)
	}
	if at := max(w.now+1, effects.Deadline); effects.Deadline != 0 && (c.ticking <= w.now || at < c.ticking) {
		c.ticking = at
		w.at(at, event{do: func() {
			if c.ticking == w.now {
				c.ticking = 0
			}
			w.stepClient(c, bft.Tick{})
		}})
	}
}

// checkAccepted compares what a client has accepted with what is ordered there.
func (w *world) checkAccepted(c *client, seq uint64) {
	if !c.accepted || c.seq == 0 || c.seq != seq || seq > uint64(len(w.entries)) {
		return
	}
	if !slices.ContainsFunc(w.entries[seq-1].Txs, func(tx []byte) bool { return bytes.Equal(tx, c.tx) }) {
		w.fail("a client has accepted %q at %d, and %q is ordered there", c.tx, seq, w.entries[seq-1].Txs)
	}
}

// answer tells the clients of an entry.
func (n *node) answer(a bft.Answer) {
	for _, tx := range a.Entry.Txs {
		c := n.w.submitted[bft.TxDigest(tx)]
		if c == nil || c.core == nil {
			continue
		}
		out := bft.Outgoing{To: c.id, Message: n.w.protocol.Address(a.Message, c.digest)}
		if n.liar != nil {
			n.transmit(n.liar.Says(out))
		} else {
			n.w.send(n, out)
		}
	}
}

// runAhead executes, and takes back, what is not decided.
func (n *node) runAhead(e *bft.Effects) {
	if e.Undo != nil {
		keep := int(*e.Undo) - len(n.state)
		if keep < 0 || keep > len(n.ahead) {
			if n.liar == nil {
				n.w.fail("%d undoes down to %d, has applied %d and executed %d more", n.id, *e.Undo, len(n.state), len(n.ahead))
			}
			keep = max(0, min(keep, len(n.ahead)))
		}
		n.ahead = n.ahead[:keep]
	}
	for _, o := range e.Ahead {
		if next := uint64(len(n.state)+len(n.ahead)) + 1; o.Seq != next && n.liar == nil {
			n.w.fail("%d executes entry %d where %d is next", n.id, o.Seq, next)
			return
		}
		n.ahead = append(n.ahead, o.Entry)
	}
}

// becomesLast compares what is applied with what was executed ahead.
func (n *node) becomesLast(o bft.Ordered) {
	if len(n.ahead) == 0 {
		return
	}
	if n.ahead[0].Digest() != o.Entry.Digest() && n.liar == nil {
		n.w.fail("%d applies another entry %d than it has executed", n.id, o.Seq)
	}
	n.ahead = n.ahead[1:]
}

// carry puts a client's message on its link.
func (w *world) carry(from bft.ID, out bft.Outgoing) {
	p := &w.plan
	if out.To == 0 || int(out.To) > len(w.nodes) || w.now < p.heal && w.rng.Float64() < p.loss {
		return
	}
	to := w.nodes[out.To-1]
	w.at(w.now+p.delay(w.rng), event{do: func() {
		if to.up {
			to.receive(from, out.Message)
		}
	}})
}

// toClient puts a replica's message to a client on its link.
func (w *world) toClient(from *node, out bft.Outgoing) {
	p := &w.plan
	at := int(out.To - firstClient)
	if at >= len(w.clients) || w.now < p.heal && w.rng.Float64() < p.loss {
		return
	}
	c := w.clients[at]
	w.at(w.now+p.delay(w.rng), event{do: func() {
		if !c.accepted {
			w.note("%d -> client %d %s %s", from.id, c.id, out.Message.Kind(), spell(out.Message))
			w.stepClient(c, bft.Received{From: from.id, Message: out.Message})
		}
	}})
}

// begin has a client ask at a time.
func (w *world) begin(at time.Duration, c *client) {
	w.at(at, event{do: func() { w.ask(c) }})
}
