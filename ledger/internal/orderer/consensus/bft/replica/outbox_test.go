package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// links is a host whose members read when they are told to.
type links struct {
	consensus.Host
	leaving map[uint64][]consensus.Message
}

func (l *links) Send(to uint64, m consensus.Message) { l.leaving[to] = append(l.leaving[to], m) }

func (l *links) Knows(id uint64) bool { return id < 9 }

func (l *links) read(to uint64) {
	l.leaving[to][0].Sent(true)
	l.leaving[to] = l.leaving[to][1:]
}

// TestOneWhoDoesNotReadIsNotWaitedForInMemory, and the others have what is theirs.
func TestOneWhoDoesNotReadIsNotWaitedForInMemory(t *testing.T) {
	host := &links{leaving: map[uint64][]consensus.Message{}}
	o := newOutbox(host)
	o.send(1, payloadOf(leavingBytes-1))
	o.send(1, payloadOf(2))
	o.send(1, payloadOf(1))
	o.send(1, payloadOf(1))
	assert.Len(t, host.leaving[1], 2)
	o.send(2, payloadOf(leavingBytes+1))
	o.send(2, payloadOf(1))
	assert.Len(t, host.leaving[2], 1)

	host.read(1)
	o.send(1, payloadOf(leavingBytes-2))
	o.send(1, payloadOf(2))
	assert.Len(t, host.leaving[1], 2)

	o.send(9, payloadOf(1))
	assert.Empty(t, host.leaving[9], "there is no way to it")

	o.regroup()
	o.send(2, payloadOf(leavingBytes))
	o.send(2, payloadOf(1))
	assert.Len(t, host.leaving[2], 2)
	host.read(2) // what was on its way before
	o.send(2, payloadOf(1))
	assert.Len(t, host.leaving[2], 1)
}

func payloadOf(bytes int) *wrapperspb.BytesValue { return wrapperspb.Bytes(make([]byte, bytes)) }
