package orderer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestAConsenterMayCheckWhatAnotherOneProposes, as the orderer checks what its own clients send.
func TestAConsenterMayCheckWhatAnotherOneProposes(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	var host consensus.Host = node.channels[ch]

	raw := func(env *commonpb.Envelope) []byte {
		text, err := proto.Marshal(env)
		require.NoError(t, err)
		return text
	}
	good := c.message(ch, "tx")
	require.NoError(t, host.Check(raw(good)))
	require.ErrorIs(t, host.Check([]byte("no envelope")), protoutil.ErrMalformed)
	forged := proto.Clone(good).(*commonpb.Envelope)
	forged.Signature[len(forged.Signature)-1] ^= 1
	require.ErrorIs(t, host.Check(raw(forged)), errForbidden)
	require.ErrorIs(t, host.Check(append(raw(good), raw(c.message(ch, "other"))...)), protoutil.ErrMalformed, "two envelopes in one")

	own := node.channels[ch].group.Load().id
	for id := range uint64(5) {
		assert.Equal(t, id >= 1 && id <= 3 && id != own, host.Knows(id), id)
	}
}

// TestAMessageForNobodyIsLostAndSaidSo: its sender may wait to hear of it.
func TestAMessageForNobodyIsLostAndSaidSo(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	var host consensus.Host = node.channels[ch]
	var left []bool
	host.Send(99, consensus.Message{Sent: func(l bool) { left = append(left, l) }})
	host.Send(99, consensus.Message{})
	assert.Equal(t, []bool{false}, left)
}
