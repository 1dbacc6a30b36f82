package replica

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
)

// TestAMessageHoldsNoOthersMemory: a vote is kept for as long as a channel is idle. What a liar has sent along with it is not.
func TestAMessageHoldsNoOthersMemory(t *testing.T) {
	junk := bytes.Repeat([]byte("junk"), 1<<18)
	vote := &pbft.Prepare{Seq: 7, Signature: []byte("signed")}
	for name, other := range map[string]bft.Message{"alone": nil, "with another": &bft.Request{Txs: [][]byte{junk}}} {
		t.Run(name, func(t *testing.T) {
			var held []func() bool
			n := &Node{settings: consensus.Settings{ID: 2}, host: &heard{}, mail: newMailbox(), protocol: Protocol{Decode: func(raw []byte) (bft.Message, error) {
				held = append(held, codectest.Held(raw))
				return pbft.Decode(raw)
			}}}
			n.hearing = newHearing(time.Now())
			n.view.Store(&bft.View{})
			bodies := [][]byte{pbft.Encode(vote)}
			if other != nil {
				bodies = append(bodies, pbft.Encode(other))
			}
			payload, err := proto.Marshal(n.payload(payloadCore, bodies...))
			require.NoError(t, err)
			require.NoError(t, n.Step(2, payload))
			kept, _ := n.mail.take()
			n.mail.take()
			assert.Equal(t, vote, kept.Message)
			assert.True(t, held[0](), "it is a part of it")
			for _, others := range held[1:] {
				assert.False(t, others())
			}
			runtime.KeepAlive(kept)
		})
	}
}
