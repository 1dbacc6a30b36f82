package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
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
