package chain

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatIsVouchedForIsNotTakenBack by the one orderer that is followed, in whichever way it denies that. It is left for
// another one, which goes on from there: a liar would have the block fetched and judged again each time.
func TestWhatIsVouchedForIsNotTakenBack(t *testing.T) {
	ctx := context.Background()
	for name, deny := range map[string]func(r *rig){
		"another running hash": func(r *rig) {
			require.NoError(r.t, r.Attest(ctx, "liar", Word{Position{1, 2}, "another hash"}))
		},
		"no such place": func(r *rig) {
			require.ErrorIs(r.t, r.Distrust(ctx, errors.New("it has no such place")), ErrRewound)
		},
		"a seal of others": func(r *rig) {
			header, metadata := r.orders.World.NewOrderer().Seal(r.open[:1])
			require.NoError(r.t, r.Seal(ctx, header, metadata))
		},
		"a forged seal, and more": func(r *rig) {
			header, metadata := r.orders.World.NewOrderer().Seal(r.open)
			metadata.Metadata[0] = nil
			require.NoError(r.t, r.Seal(ctx, header, metadata))
			_ = r.Add(ctx, r.orders.World.Raw(put(r.orders.World, "x", "lie"))) // it may know of the seal
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := liarsWorld(t)
			r := startRig(t, w, t.TempDir(), Options{})
			one, first := w.Make(put(w, "a", "1"))
			two, second := w.Make(put(w, "b", "1"))
			r.add(one)
			r.add(two)
			r.Say("b", word(w, one, two))
			r.Say("c", word(w, one, two))
			r.onDisk()
			rewound := r.Rewound()
			deny(r)
			<-rewound
			require.Equal(t, Position{1, 2}, r.Position())
			r.isTold(first, "a", Position{1, 0})
			r.isTold(second, "b", Position{1, 1})
			assert.Equal(t, "1", string(r.Snapshot().Get("kv", "b").Value))
			assert.Nil(t, r.Snapshot().Get("kv", "x"))

			three, third := w.Make(put(w, "c", "1"))
			r.add(three)
			r.seal()
			r.isTold(third, "c", Position{1, 2})
			r.settle()
			assert.EqualValues(t, 2, r.Height())
		})
	}
}

// TestAContradictionAfterWhatIsVouchedForTakesTheRunBack: nobody but the liar has vouched for its last transaction.
func TestAContradictionAfterWhatIsVouchedForTakesTheRunBack(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	truth, id := w.Make(put(w, "a", "1"))
	r.add(truth)
	r.Say("b", word(w, truth))
	r.Say("c", word(w, truth))
	require.NoError(t, r.Add(context.Background(), w.Raw(put(w, "x", "lie"))))
	rewound := r.Rewound()
	require.NoError(t, r.Attest(context.Background(), "liar", Word{Position{1, 2}, "another hash"}))
	<-rewound
	require.Equal(t, Position{1, 0}, r.Position())
	assert.Nil(t, r.Snapshot().Get("kv", "x"))
	require.NoError(t, r.Add(context.Background(), truth))
	r.seal()
	r.isTold(id, "a", Position{1, 0})
}

// TestABlockThatStaysIsBoundedAsBefore: what follows what is vouched for counts with it.
func TestABlockThatStaysIsBoundedAsBefore(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	txs := plain(60)(w)
	for _, raw := range txs {
		r.add(raw)
	}
	r.Say("b", word(w, txs...))
	r.Say("c", word(w, txs...))
	require.ErrorIs(t, r.Distrust(context.Background(), errors.New("it has no such place")), ErrRewound)
	require.Equal(t, Position{1, 60}, r.Position())
	assert.Equal(t, Position{1, 100}, refusedAt(r, plain(50)(w)...))
	assert.Equal(t, Position{1, 0}, r.Position())
}

// TestMoreThanMayLieTakeBackWhatWasVouchedFor: as many contradict it as have vouched for it, so more lie than may, and
// the peer has to follow somebody.
func TestMoreThanMayLieTakeBackWhatWasVouchedFor(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	lie, truth := w.Raw(put(w, "a", "lie")), w.Raw(put(w, "a", "truth"))
	require.NoError(t, r.Add(context.Background(), lie))
	r.onDisk()
	r.Say("a", word(w, lie))
	r.Say("b", word(w, lie))
	rewound := r.Rewound()
	r.Say("c", word(w, truth))
	r.Say("d", word(w, truth))
	<-rewound
	assert.Equal(t, Position{1, 0}, r.Position())
}

// TestATransactionOnDiskIsToldAfterItsRunHasStayed: stage 3 may hold it when its sender is left.
func TestATransactionOnDiskIsToldAfterItsRunHasStayed(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	raw := w.Raw(put(w, "a", "1"))
	r.add(raw)
	r.Say("b", word(w, raw))
	r.Say("c", word(w, raw))
	r.onDisk()
	run := r.pipeline.base.Load()
	require.ErrorIs(t, r.Distrust(context.Background(), errors.New("it has no such place")), ErrRewound)
	require.NotSame(t, run, r.pipeline.base.Load())
	assert.Equal(t, Position{1, 1}, r.pipeline.words.covered(run))
}

// TestAWordThatIsRepeatedTakesNoMemory, while nobody else vouches for what it is about: one orderer may repeat it for ever.
func TestAWordThatIsRepeatedTakesNoMemory(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	first, id := w.Make(put(w, "a", "1"))
	second, _ := w.Make(put(w, "b", "2"))
	r.add(first)
	for range 100 {
		r.attest("liar", first)
	}
	r.add(second)
	r.onDisk() // with the last one all of them are taken
	waiting := func() int {
		r.pipeline.words.mu.Lock()
		defer r.pipeline.words.mu.Unlock()
		return len(r.pipeline.words.states)
	}
	assert.LessOrEqual(t, waiting(), 2, "a state for each transaction")
	r.isNotTold(id, "a")
	assert.Equal(t, Agrees, r.Say("other", word(w, first)))
	r.isTold(id, "a", Position{1, 0})
}
