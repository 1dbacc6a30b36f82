package replica

import (
	"context"
	"runtime"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
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
		letSend()
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
	var payload proto.Message
	var of bft.Message
	for _, o := range out {
		if o.Message != of {
			payload, of = n.payload(payloadCore, n.protocol.Encode(o.Message)), o.Message
		}
		n.host.Send(o.To, consensus.Message{Payload: payload})
	}
}

// letSend lets those run who write messages to connections, and who apply: the next sync may keep this process's only
// thread until it returns. Twice, because gRPC's own writer steps back once for more to come.
func letSend() {
	runtime.Gosched()
	runtime.Gosched()
}
