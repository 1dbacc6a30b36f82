package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

type letter string

func (letter) Kind() string { return "letter" }

// TestMessagesForOneMemberLeaveTogether, in their order, and each is encoded once however many it is for.
func TestMessagesForOneMemberLeaveTogether(t *testing.T) {
	var encoded []string
	out := parcels{encode: func(m bft.Message) []byte {
		encoded = append(encoded, string(m.(letter)))
		return []byte(m.(letter))
	}}
	a, b, c := letter("a"), letter("b"), letter("c")
	out.add([]bft.Outgoing{{To: 1, Message: a}, {To: 2, Message: a}, {To: 2, Message: b}})
	out.add([]bft.Outgoing{{To: 1, Message: c}})
	assert.Equal(t, []string{"a", "b", "c"}, encoded)
	require.Len(t, out.all, 2)
	assert.Equal(t, parcel{to: 1, bodies: [][]byte{[]byte("a"), []byte("c")}, bytes: 2}, *out.all[0])
	assert.Equal(t, parcel{to: 2, bodies: [][]byte{[]byte("a"), []byte("b")}, bytes: 2}, *out.all[1])
}

// TestALargeMessageLeavesByItself, so that no parcel is larger than what a connection takes.
func TestALargeMessageLeavesByItself(t *testing.T) {
	out := parcels{encode: func(m bft.Message) []byte { return []byte(m.(letter)) }}
	large := letter(make([]byte, parcelBytes))
	for _, m := range []letter{"a", large, "b"} {
		out.add([]bft.Outgoing{{To: 1, Message: m}})
	}
	var sizes []int
	for _, p := range out.all {
		sizes = append(sizes, p.bytes)
	}
	assert.Equal(t, []int{1, parcelBytes, 1}, sizes)
}

// TestAPayloadHasSoManyMessagesAtMost: what a sender puts into one is what a receiver takes.
func TestAPayloadHasSoManyMessagesAtMost(t *testing.T) {
	out := parcels{encode: func(bft.Message) []byte { return zyzzyva.Encode(&bft.Want{}) }}
	for i := range 2*parcelMessages + 1 {
		out.add([]bft.Outgoing{{To: 1, Message: letter(fmt.Sprint(i))}})
	}
	host := &heard{}
	n := &Node{host: host, hearing: newHearing(time.Now()), mail: newMailbox(), protocol: Protocol{Decode: zyzzyva.Decode}}
	n.settings.ID = 2
	n.view.Store(&bft.View{})
	step := func(bodies [][]byte) error {
		raw, err := proto.Marshal(n.payload(payloadCore, bodies...))
		require.NoError(t, err)
		return n.Step(2, raw)
	}
	for _, p := range out.all {
		assert.NoError(t, step(p.bodies))
	}
	assert.Equal(t, 2*parcelMessages+1, n.mail.len())
	full := out.all[0].bodies
	assert.Equal(t, codes.InvalidArgument, status.Code(step(append(full, full[0]))))
}

func TestANearDeadlineThatIsPutOffIsNotTold(t *testing.T) {
	d, err := newDeadline()
	require.NoError(t, err)
	defer d.close()
	for late := true; late; { // this test itself may be too late to put it off
		at := time.Now().Add(nearby / 2)
		d.set(at)
		d.set(at.Add(time.Hour))
		late = !time.Now().Before(at)
		time.Sleep(nearby)
		select {
		case <-d.near.C:
			require.True(t, late)
		default:
		}
	}
}

func TestADeadlineIsToldNearOrFar(t *testing.T) {
	d, err := newDeadline()
	require.NoError(t, err)
	defer d.close()
	for _, after := range []time.Duration{-time.Second, time.Millisecond, nearby + 10*time.Millisecond} {
		at := time.Now().Add(after)
		d.set(at)
		d.set(at)                                                 // the same again
		for told := false; !told; told = !time.Now().Before(at) { // one that was set before may be told late
			select {
			case <-d.near.C:
			case <-d.far.C:
			}
		}
	}
}
