package replica

import (
	"context"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/wire"
)

// write makes durable what the core asks for, with one sync for all that waits, and only then sends and applies.
func (n *Node) write(ctx context.Context) error {
	for {
		batch := n.disk.take()
		if batch == nil {
			return ctx.Err()
		}
		n.disk.begin(batch)
		n.writing.Work()
		if err := n.persist(batch); err != nil {
			return err
		}
		out := parcels{encode: n.protocol.Encode}
		for _, e := range batch {
			if e.Fault != nil {
				n.send(out)
				return e.Fault
			}
			if n.protocol.Address != nil {
				n.clients.answer(e.Answer, n.protocol)
			}
			if out.add(e.Send); out.bytes > sendBytes {
				n.send(out)
				out = parcels{encode: n.protocol.Encode}
			}
			if e.Fetch != nil {
				n.tell(ctx, news{in: bft.Logged{Seq: e.Fetch.Certificate.Seq}})
			}
			if len(e.Apply) > 0 || e.Fetch != nil {
				n.work.put(work{apply: e.Apply, fetch: e.Fetch})
			}
			if e.Settle != nil {
				e.Settle()
			}
		}
		n.send(out)
		n.writing.Wait()
		wire.LetSend() // and those who apply
	}
}

// hasWork reports whether anything of a step is for the writer. Most votes change nothing yet, and to wake it for each costs
// more than to take them in.
func hasWork(e bft.Effects) bool {
	return len(e.Persist)+len(e.Send)+len(e.Apply)+len(e.Answer) > 0 || e.Fetch != nil || e.Fault != nil
}

func (n *Node) persist(batch []bft.Effects) error {
	var records [][]byte
	anew := false
	for _, e := range batch {
		for _, r := range e.Persist {
			if _, is := r.(replace); is {
				anew, records = true, nil
				continue
			}
			records = append(records, n.protocol.EncodeRecord(r))
		}
	}
	write := n.log.Append
	if anew {
		write = n.log.Replace
	}
	if err := write(records); err != nil {
		return err
	}
	n.logged.Store(n.log.Size())
	if anew {
		// What has to be kept may be more than that by itself. It is not written again before it has doubled.
		n.compactAt.Store(max(n.leastBytes, 2*n.log.Size()))
		n.compacting.Store(false)
	}
	return nil
}

const (
	// parcelBytes is about how much of several messages goes in one.
	parcelBytes = 256 << 10
	// parcelMessages is how many go in one: a liar's could otherwise be nothing but beginnings of messages.
	parcelMessages = 1024
	// sendBytes is about how much is encoded before it leaves.
	sendBytes = 16 << 20
)

// parcel is messages for one member, which leave together: each that leaves alone costs both sides a wake-up.
type parcel struct {
	to     bft.ID
	bodies [][]byte
	bytes  int
}

// parcels gathers messages. Each is encoded once, however many it is for.
type parcels struct {
	encode func(bft.Message) []byte
	all    []*parcel
	bytes  int // of messages, each once
	of     bft.Message
	body   []byte
}

func (p *parcels) add(out []bft.Outgoing) {
	for _, o := range out {
		if o.Message != p.of {
			p.body, p.of = p.encode(o.Message), o.Message
			p.bytes += len(p.body)
		}
		at := p.last(o.To)
		if at == nil || at.bytes+len(p.body) > parcelBytes || len(at.bodies) == parcelMessages {
			at = &parcel{to: o.To}
			p.all = append(p.all, at)
		}
		at.bodies, at.bytes = append(at.bodies, p.body), at.bytes+len(p.body)
	}
}

// last is the newest parcel for a member; nil: there is none.
func (p *parcels) last(to bft.ID) *parcel {
	for i := len(p.all) - 1; i >= 0; i-- {
		if p.all[i].to == to {
			return p.all[i]
		}
	}
	return nil
}

func (n *Node) send(out parcels) {
	for _, p := range out.all {
		if p.to > firstClient {
			n.clients.deliver(p.to, p.bodies)
			continue
		}
		n.outbox.send(p.to, n.payload(payloadCore, p.bodies...))
	}
}
