package chain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const badCreator = peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE

// TestWhoIsNotAdmittedHearsSo, whether it waits for it or asks afterwards, also of a peer that was restarted.
func TestWhoIsNotAdmittedHearsSo(t *testing.T) {
	for name, c := range map[string]struct {
		world *peertest.World
		every int // transactions to a checkpoint; -1: there is none
	}{
		"stream, replayed":            {streamWorld(t), -1},
		"block, replayed":             {blockWorld(t), -1},
		"stream, behind a checkpoint": {streamWorld(t), 1},
		"block, behind a checkpoint":  {blockWorld(t), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := c.world, t.TempDir()
			r := startRig(t, w, dir, Options{CheckpointEvery: c.every})
			raw, id := w.Make(peertest.Tx{Client: streamWorld(t).Signer("Org1MSP", "client")})
			waited := make(chan Status, 1)
			go func() { waited <- r.status(id) }()
			r.add(raw)
			r.seal()
			want := Status{Code: badCreator, Position: Position{1, 0}}
			assert.Equal(t, want, <-waited)
			assert.Equal(t, want, r.status(id))
			r.settle()
			for n := range uint64(2) { // the second time behind a checkpoint of a peer that had begun with one
				orders := r.orders
				require.NoError(t, r.stop())
				r = startRig(t, w, dir, Options{CheckpointEvery: c.every})
				assert.Equal(t, c.every > 0, r.covered == 2+n, "%d transactions came from a checkpoint", r.covered)
				assert.Equal(t, want, r.status(id))
				r.orders = orders
				r.add(w.Raw(peertest.Tx{}))
				r.seal()
				r.settle()
			}
		})
	}
}

// TestACopyUnderAnotherSignatureAnswersNobody: anybody can make one, before the transaction itself comes.
func TestACopyUnderAnotherSignatureAnswersNobody(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	for at, client := range map[uint64]*peertest.World{0: w, 1: streamWorld(t)} {
		raw, id := w.Make(peertest.Tx{Client: client.Signer("Org1MSP", "client")})
		waited := make(chan Status, 1)
		go func() { waited <- r.status(id) }()
		var copied commonpb.Envelope
		require.NoError(t, proto.Unmarshal(raw, &copied))
		copied.Signature[8]++
		forged, err := proto.Marshal(&copied)
		require.NoError(t, err)
		r.add(forged)
		r.settle()
		r.untold(id)
		r.add(raw)
		want := Status{Code: []Code{valid, badCreator}[at], Position: Position{1, r.Position().Tx - 1}}
		assert.Equal(t, want, <-waited)
	}
}

// TestARefusedTransactionIsForgotten where its block is taken back, or many have come since; and it takes no id.
func TestARefusedTransactionIsForgotten(t *testing.T) {
	asked := func(x *index, key validate.TxKey) (Status, error) {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		return x.wait(over, nil, key)
	}
	key := func(n int) validate.TxKey { return validate.TxKey{byte(n), byte(n >> 8), 1} }
	x := newIndex()
	x.refuse(key(0), Position{1, 0}, badCreator)
	_, err := asked(x, key(0))
	assert.ErrorIs(t, err, context.Canceled, "it is not durable")
	x.publish(Position{1, 1}, 0, nil)
	taken, err := x.has(key(0))
	require.NoError(t, err)
	assert.False(t, taken)
	x.refuse(key(1), Position{2, 0}, badCreator)
	x.rewind(2)
	x.publish(Position{3, 0}, 1, nil)
	_, err = asked(x, key(1))
	assert.ErrorIs(t, err, context.Canceled)
	s, err := asked(x, key(0))
	require.NoError(t, err)
	assert.Equal(t, Status{badCreator, Position{1, 0}}, s)

	x.claim(key(0), Position{3, 0}, valid) // its creator is admitted again
	_, err = asked(x, key(0))
	assert.ErrorIs(t, err, context.Canceled, "what counts is not durable")
	x.publish(Position{3, 1}, 0, nil)
	s, err = asked(x, key(0))
	require.NoError(t, err)
	assert.Equal(t, Status{valid, Position{3, 0}}, s)
	for n := range maxRefused {
		x.refuse(key(n+1), Position{2, uint64(n)}, badCreator)
	}
	assert.Len(t, x.refused.places, maxRefused)
	assert.NotContains(t, x.refused.places, key(0))
}
