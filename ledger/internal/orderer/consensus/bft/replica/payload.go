package replica

import (
	"bytes"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// What a payload begins with.
const (
	payloadCore = 1
	payloadSeal = 2
)

// Step implements consensus.Consenter. Where too much of the sender's waits, all of it is lost: it is sent again.
func (n *Node) Step(from uint64, payload []byte) error {
	var wrapped wrapperspb.BytesValue
	if err := proto.Unmarshal(payload, &wrapped); err != nil {
		return status.Error(codes.InvalidArgument, "not a replica's message")
	}
	r := bft.NewReader(wrapped.Value)
	kind, sender := r.Uint(), r.Uint()
	var bodies [][]byte
	for r.More() && len(bodies) <= parcelMessages {
		bodies = append(bodies, r.Chunk())
	}
	if r.Err() != nil || len(bodies) == 0 || len(bodies) > parcelMessages {
		return status.Error(codes.InvalidArgument, "not a replica's message")
	}
	if from != 0 && sender != from {
		return status.Errorf(codes.PermissionDenied, "message from %d on the stream of consenter %d", sender, from)
	}
	if !n.host.Knows(sender) {
		return nil
	}
	switch kind {
	case payloadSeal:
		if len(bodies) > 1 { // each may have a signature verified
			return status.Error(codes.InvalidArgument, "several blocks' signatures in a message")
		}
		n.seals.receive(sender, bodies[0])
		return nil
	case payloadCore:
		return n.receive(sender, len(payload), bodies)
	default:
		return status.Errorf(codes.InvalidArgument, "message of kind %d", kind)
	}
}

// receive keeps messages for the core, which came together in so many bytes. What the core keeps of one must not hold the
// memory of those beside it, which a liar may have filled: each of several has its own. One that came alone has it already.
func (n *Node) receive(from bft.ID, size int, bodies [][]byte) error {
	messages := make([]bft.Message, len(bodies))
	epoch := n.view.Load().Group.Epoch
	for i, body := range bodies {
		if len(bodies) > 1 {
			body = bytes.Clone(body)
		}
		var err error
		if messages[i], err = n.protocol.Decode(body); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		if m, is := messages[i].(bft.Dated); is && m.In() <= epoch {
			n.hearing.note(from, time.Now())
		}
	}
	n.mail.put(from, size, messages...)
	return nil
}

// payload is what Step gets of messages.
func (n *Node) payload(kind uint64, bodies ...[]byte) *wrapperspb.BytesValue {
	size := 16
	for _, body := range bodies {
		size += len(body) + 8
	}
	w := &bft.Writer{Bytes: make([]byte, 0, size)}
	w.Uint(kind)
	w.Uint(n.settings.ID)
	for _, body := range bodies {
		w.Chunk(body)
	}
	return wrapperspb.Bytes(w.Bytes)
}
