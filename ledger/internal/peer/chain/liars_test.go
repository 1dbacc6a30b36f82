package chain

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// crossLinked is two transactions as one: a block's data hash does not tell it from the two, and a reader of protobuf
// sees the second alone (Fabric's CVE-2023-46132).
func crossLinked(one, other []byte) []byte { return slices.Concat(one, other) }

// TestTwoTransactionsInOneItemAreRefused: the seal of the two, which all other peers have, would fit.
func TestTwoTransactionsInOneItemAreRefused(t *testing.T) {
	for name, mode := range map[string]channelconfig.Mode{"stream": channelconfig.Stream, "block": channelconfig.Block} {
		t.Run(name, func(t *testing.T) {
			w := peertest.New(t, peertest.Options{Mode: mode})
			one, other := w.Raw(put(w, "a", "1")), w.Raw(put(w, "b", "1"))
			r := startRig(t, w, t.TempDir(), Options{})
			err := r.Add(context.Background(), crossLinked(one, other))
			require.ErrorIs(t, err, ErrDishonest)
			assert.Equal(t, Position{1, 0}, r.Position(), "nothing was taken")
			r.add(one)
			r.add(other)
			r.seal()
			r.settle()
			assert.Equal(t, "1", string(r.Snapshot().Get("kv", "a").Value))
		})
	}
}

// TestEnvelopesOfAnotherFormAreRefused: each is the same transaction to a reader of protobuf, and another one to the
// data hash.
func TestEnvelopesOfAnotherFormAreRefused(t *testing.T) {
	w := streamWorld(t)
	raw := w.Raw(put(w, "a", "1"))
	_, _, n := protowire.ConsumeField(raw)
	payload, signature := raw[:n], raw[n:]
	long := append([]byte{signature[0], signature[1] | 0x80, 0}, signature[2:]...)
	r := startRig(t, w, t.TempDir(), Options{})
	for name, spoiled := range map[string][]byte{
		"empty":                   {},
		"signature first":         slices.Concat(signature, payload),
		"no signature":            payload,
		"an empty signature":      append(slices.Clone(payload), signature[0], 0),
		"no payload":              signature,
		"payload twice":           slices.Concat(payload, payload, signature),
		"signature twice":         slices.Concat(raw, signature),
		"a field that is unknown": protowire.AppendVarint(protowire.AppendTag(slices.Clone(raw), 3, protowire.VarintType), 1),
		"a length in more bytes":  slices.Concat(payload, long),
		"cut off":                 raw[:len(raw)-1],
	} {
		assert.ErrorIs(t, r.Add(context.Background(), spoiled), ErrDishonest, name)
	}
	r.add(raw)
	r.seal()
	r.settle()
}

// TestAnEmptyBlockIsRefused as by Fabric's orderers and peers: no order of transactions gives one.
func TestAnEmptyBlockIsRefused(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	rewound := r.Rewound()
	header, metadata := w.NewOrderer().Seal(nil)
	junk := &commonpb.BlockMetadata{Metadata: append(slices.Clone(metadata.Metadata), make([]byte, maxSeal))}
	require.ErrorIs(t, r.Seal(context.Background(), header, junk), ErrDishonest, "no signature covers all of it")
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	<-rewound
	r.settle()
	assert.EqualValues(t, 1, r.Height())
}

// TestAWrongSealLeavesRoomInThePipeline: what it weighs is given back, or a few liars' seals would fill it for good.
func TestAWrongSealLeavesRoomInThePipeline(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	require.NoError(t, r.Add(context.Background(), w.Raw(put(w, "a", "1"))))
	rewound := r.Rewound()
	header, metadata := w.NewOrderer().Seal([][]byte{w.Raw(put(w, "b", "1"))})
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	<-rewound
	r.onDisk()
}

// writeBlock puts a block with these items into a ledger's files, under the seal of the transactions sealed.
func writeBlock(t *testing.T, w *peertest.World, dir string, items, sealed [][]byte, flags ...byte) {
	t.Helper()
	store, err := blockfile.Open(dir, blockfile.Options{})
	require.NoError(t, err)
	if store.Height() == 0 {
		require.NoError(t, store.AppendBlock(w.Genesis))
	}
	for i, raw := range items {
		require.NoError(t, store.AppendTx(1, uint64(i), raw, 0))
	}
	if sealed != nil {
		header, metadata := w.NewOrderer().Seal(sealed)
		if flags != nil {
			metadata.Metadata[2] = flags
		}
		require.NoError(t, store.AppendSeal(header, metadata))
	}
	require.NoError(t, store.Sync())
	require.NoError(t, store.Close())
}

// TestACrossLinkedTailIsTakenBack: a version that did not look at the form of envelopes has left it on disk.
func TestACrossLinkedTailIsTakenBack(t *testing.T) {
	w := streamWorld(t)
	one, other := w.Raw(put(w, "a", "1")), w.Raw(put(w, "b", "1"))
	dir := t.TempDir()
	require.NoError(t, startRig(t, w, dir, Options{}).stop())
	writeBlock(t, w, dir, [][]byte{crossLinked(one, other)}, nil)
	r := startRig(t, w, dir, Options{})
	require.Equal(t, Position{1, 1}, r.Position())
	rewound := r.Rewound()
	header, metadata := w.NewOrderer().Seal([][]byte{one, other})
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	<-rewound
	assert.Equal(t, Position{1, 0}, r.Position())
}

// TestInspectFindsCrossLinkedTransactions in an orderer's ledger, and in a peer's.
func TestInspectFindsCrossLinkedTransactions(t *testing.T) {
	w := streamWorld(t)
	one, other := w.Raw(put(w, "a", "1")), w.Raw(put(w, "b", "1"))
	two := [][]byte{one, other}
	orderers := t.TempDir()
	writeBlock(t, w, orderers, [][]byte{crossLinked(one, other)}, two)
	_, err := Inspect(orderers, false)
	require.ErrorContains(t, err, "not well-formed")

	peers := t.TempDir()
	require.NoError(t, startRig(t, w, peers, Options{}).stop())
	writeBlock(t, w, peers, [][]byte{crossLinked(one, other)}, two, 0)
	_, err = Inspect(peers, false)
	require.ErrorContains(t, err, "not well-formed")
}
