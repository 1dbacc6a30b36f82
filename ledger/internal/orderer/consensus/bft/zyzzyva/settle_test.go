package zyzzyva

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestAResponseThatIsRepeatedHasTheOrder: who has got another one since it heard the first proves by both that the leader lies.
func TestAResponseThatIsRepeatedHasTheOrder(t *testing.T) {
	order := func(tx string, config bool) bft.Received {
		e := &bft.Entry{Txs: [][]byte{[]byte(tx)}, Config: config}
		return bft.Received{From: 1, Message: &Order{Seq: 1, History: Chain(Beginning(0), e.Digest()), Entry: e, Signature: []byte(tx)}}
	}
	said := func(e bft.Effects) (responses []*Response) {
		for _, out := range e.Send {
			if m, is := out.Message.(*Response); is && out.To == 4 {
				responses = append(responses, m)
			}
		}
		return responses
	}
	one, _ := four(2)
	other, _ := four(4)
	first := said(one.Step(1, order("=", true)))
	require.Len(t, first, 1)
	other.Step(1, bft.Received{From: 2, Message: first[0]})
	other.Step(1, order("x", false))
	require.EqualValues(t, 1, other.View().Last)

	again := said(one.Step(2, bft.Received{From: 4, Message: &Status{Active: true, Last: 2, Final: Beginning(0)}}))
	require.Len(t, again, 1)
	assert.Equal(t, first[0], again[0])
	other.Step(2, bft.Received{From: 2, Message: again[0]})
	assert.EqualValues(t, 1, other.View().View)
}
