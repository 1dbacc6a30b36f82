package replica

import (
	"context"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// write makes durable what the core asks for, with one sync for all that waits, and only then sends and applies.
func (n *Node) write(ctx context.Context) error {
	for {
		batch := n.disk.take()
		if batch == nil {
			return ctx.Err()
		}
		if err := n.persist(batch); err != nil {
			return err
		}
		for _, e := range batch {
			if e.Fault != nil {
				return e.Fault
			}
			n.send(e.Send)
			if len(e.Apply) > 0 || e.Fetch != nil {
				n.work.put(work{apply: e.Apply, fetch: e.Fetch})
			}
		}
	}
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
	return nil
}

// send encodes a message once, however many it is for.
func (n *Node) send(out []bft.Outgoing) {
	var encoded []byte
	var of bft.Message
	for _, o := range out {
		if o.Message != of {
			encoded, of = n.protocol.Encode(o.Message), o.Message
		}
		n.transmit(o.To, payloadCore, encoded)
	}
}
