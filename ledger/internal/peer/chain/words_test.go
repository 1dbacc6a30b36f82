package chain

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// liarsWorld has four orderers, of which one may lie.
func liarsWorld(t testing.TB) *peertest.World {
	return peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Liars: 1})
}

// word is that of an orderer which has these transactions in the first block.
func word(w *peertest.World, txs ...[]byte) Word {
	hash := w.NewOrderer().Previous
	for _, tx := range txs {
		hash = protoutil.RunningHash(hash, tx)
	}
	return Word{Position{1, uint64(len(txs))}, string(hash)}
}

// attest has the orderer say its word that has sent all so far.
func (r *rig) attest(orderer string, txs ...[]byte) {
	r.t.Helper()
	require.NoError(r.t, r.Attest(context.Background(), orderer, word(r.orders.World, txs...)))
}

// isTold waits until a transaction that writes the key has been told, at that place.
func (r *rig) isTold(id, key string, at Position) {
	r.t.Helper()
	assert.Equal(r.t, Status{Position: at}, r.status(id))
	assert.NotNil(r.t, r.Told().Get("kv", key), "queries see it")
}

// isNotTold asserts that nobody hears of a transaction that writes the key. It may be simulated on.
func (r *rig) isNotTold(id, key string) {
	r.t.Helper()
	r.untold(id)
	assert.Nil(r.t, r.Told().Get("kv", key))
}

// toldBy is how many transactions were told by words, or by the seal.
func toldBy(t *testing.T, registry *prometheus.Registry, by string) float64 {
	t.Helper()
	return opstest.Value(t, registry, "qioi_pipeline_told_total", fmt.Sprintf("by=%q", by))
}

// TestACommitIsToldAtEnoughEqualWords, of different orderers, and not before.
func TestACommitIsToldAtEnoughEqualWords(t *testing.T) {
	w := liarsWorld(t)
	registry := prometheus.NewRegistry()
	r := startRig(t, w, t.TempDir(), Options{Metrics: NewMetrics(registry)})
	require.Equal(t, 2, r.Needed())
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.onDisk()
	r.isNotTold(id, "a")
	assert.NotNil(t, r.Snapshot().Get("kv", "a"), "endorsements may rest on it")
	r.attest("a", raw)
	r.onDisk()
	r.isNotTold(id, "a")
	assert.Equal(t, Agrees, r.Say("a", word(w, raw)), "the same orderer counts once")
	r.isNotTold(id, "a")
	assert.Equal(t, Contradicts, r.Say("b", word(w, []byte("other"))))
	r.isNotTold(id, "a")
	assert.Equal(t, Agrees, r.Say("c", word(w, raw)))
	r.isTold(id, "a", Position{1, 0})
	assert.EqualValues(t, 1, r.Height(), "the seal is still to come")
	r.seal()
	r.settle()
	r.isTold(id, "a", Position{1, 0})
	assert.EqualValues(t, 1, toldBy(t, registry, "words"))
	assert.Zero(t, toldBy(t, registry, "seal"))
}

// TestTheSealTellsWhatWordsDoNot: nobody else says a word.
func TestTheSealTellsWhatWordsDoNot(t *testing.T) {
	w := liarsWorld(t)
	registry := prometheus.NewRegistry()
	r := startRig(t, w, t.TempDir(), Options{Metrics: NewMetrics(registry)})
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.attest("a", raw)
	r.onDisk()
	r.isNotTold(id, "a")
	r.seal()
	r.isTold(id, "a", Position{1, 0})
	r.settle()
	assert.EqualValues(t, 1, toldBy(t, registry, "seal"))
	assert.Zero(t, toldBy(t, registry, "words"))
}

// TestAWordMayBeAhead of what the peer has received, and stands for all before it.
func TestAWordMayBeAhead(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	one, first := w.Make(put(w, "a", "1"))
	two, second := w.Make(put(w, "b", "1"))
	assert.Equal(t, Unknown, r.Say("b", word(w, one, two)))
	r.add(one)
	r.attest("a", one)
	r.onDisk()
	r.isNotTold(first, "a")
	r.add(two)
	r.attest("a", one, two)
	r.isTold(first, "a", Position{1, 0})
	r.isTold(second, "b", Position{1, 1})
	agreed, against := r.Standing("b")
	assert.Equal(t, Position{1, 2}, agreed)
	assert.False(t, against)
}

// reading is a transaction simulated on a state: it reads one key and writes another.
func reading(w *peertest.World, s *statedb.Snapshot, key, writes string) peertest.Tx {
	return peertest.Tx{Results: w.Simulate(s, func(sim *rwset.Simulator) {
		_, _ = sim.Get("kv", key)
		_ = sim.Put("kv", writes, []byte("1"))
	})}
}

// TestALiarsRunIsRolledBackWhenEnoughContradictIt, ahead of any seal. What was simulated on it fails, though what it has read
// is there again, at the same place; what was simulated on the true order is valid.
func TestALiarsRunIsRolledBackWhenEnoughContradictIt(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	lie, forged := w.Make(put(w, "a", "lie"))
	truth, id := w.Make(put(w, "a", "truth"))
	require.NoError(t, r.Add(context.Background(), lie))
	r.attest("a", lie)
	r.onDisk()
	onLie, misled := w.Make(reading(w, r.Snapshot(), "a", "b"))
	rewound := r.Rewound()
	assert.Equal(t, Contradicts, r.Say("b", word(w, truth)))
	require.NoError(t, r.Add(context.Background(), w.Raw(put(w, "x", "lie")))) // the pipeline has heard it once this is done
	r.onDisk()
	require.Empty(t, r.pipeline.words.lied, "one that contradicts may be the liar")
	require.False(t, closed(rewound), "one that contradicts may be the liar")
	assert.Equal(t, Contradicts, r.Say("c", word(w, truth)))
	<-rewound
	require.Equal(t, Position{1, 0}, r.Position())
	r.isNotTold(forged, "a")
	r.add(truth)
	r.isTold(id, "a", Position{1, 0}) // what was said counts for the truth
	onTruth, right := w.Make(reading(w, r.Snapshot(), "a", "c"))
	r.add(onLie)
	r.add(onTruth)
	r.seal()
	r.settle()
	assert.Equal(t, peerpb.TxValidationCode_MVCC_READ_CONFLICT, r.status(misled).Code)
	assert.Equal(t, valid, r.status(right).Code)
	assert.Equal(t, "truth", string(r.Told().Get("kv", "a").Value))
}

// TestAnOrdererThatContradictsItselfIsFoundOut: what it has sent has another running hash than it says.
func TestAnOrdererThatContradictsItselfIsFoundOut(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	raw := w.Raw(put(w, "a", "1"))
	rewound := r.Rewound()
	require.NoError(t, r.Add(context.Background(), raw))
	r.attest("a", w.Raw(put(w, "a", "2")))
	<-rewound
	assert.Equal(t, Position{1, 0}, r.Position())
	assert.Nil(t, r.Snapshot().Get("kv", "a"))
	require.ErrorIs(t, r.Attest(context.Background(), "a", word(w, raw)), ErrDishonest, "a word for another place")
}

// TestAFalseWordForASealTakesNothingBack: the seal has decided, and another orderer may have begun the next block.
func TestAFalseWordForASealTakesNothingBack(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	r.add(w.Raw(put(w, "a", "1")))
	r.seal()
	rewound := r.Rewound()
	require.NoError(t, r.Attest(context.Background(), "a", Word{Position{2, 0}, "another hash"}))
	r.add(w.Raw(put(w, "b", "1")))
	r.seal()
	r.settle()
	assert.False(t, closed(rewound))
	assert.EqualValues(t, 3, r.Height())
}

// TestWhatWasToldIsStillSoWhenTheRunIsTakenBack: the orderer that was followed denies it, and it comes again in parts.
func TestWhatWasToldIsStillSoWhenTheRunIsTakenBack(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	one, first := w.Make(put(w, "a", "1"))
	two, second := w.Make(put(w, "b", "1"))
	r.add(one)
	r.add(two)
	r.attest("a", one, two)
	r.Say("b", word(w, one, two))
	r.isTold(second, "b", Position{1, 1})
	require.NoError(t, r.Add(context.Background(), w.Raw(put(w, "x", "lie")))) // which nobody has vouched for
	rewound := r.Rewound()
	require.ErrorIs(t, r.Distrust(context.Background(), errors.New("it has no such place")), ErrRewound)
	<-rewound
	require.Equal(t, Position{1, 0}, r.Position())
	require.NoError(t, r.Add(context.Background(), one))
	r.attest("d", one)
	r.Say("c", word(w, one))
	r.isTold(first, "a", Position{1, 0})
	assert.NotNil(t, r.Told().Get("kv", "b"), "a client has been told of it")
}

// TestATailFromDiskIsToldAtEnoughWords.
func TestATailFromDiskIsToldAtEnoughWords(t *testing.T) {
	w := liarsWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.onDisk()
	require.NoError(t, r.stop())
	r = startRig(t, w, dir, Options{})
	require.Equal(t, Position{1, 1}, r.Position())
	require.Equal(t, Position{1, 1}, r.Reached())
	r.isNotTold(id, "a")
	r.attest("a", raw)
	r.Say("b", word(w, raw))
	r.isTold(id, "a", Position{1, 0})
}

// TestVersionsAreTheSameAfterAStart from a checkpoint, from the blocks, and from the tail.
func TestVersionsAreTheSameAfterAStart(t *testing.T) {
	w := liarsWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{CheckpointEvery: 3})
	for i := range 10 {
		r.add(w.Raw(put(w, fmt.Sprint("k", i%7), fmt.Sprint(i))))
		if i%2 == 1 {
			r.seal()
			r.settle()
		}
	}
	want := r.fingerprint()
	require.NoError(t, r.stop())
	for _, every := range []int{3, -1} {
		r = startRig(t, w, dir, Options{CheckpointEvery: every})
		assert.Equal(t, want, r.fingerprint())
		require.NoError(t, r.stop())
	}
}

// TestAFloodOfWordsIsBounded, and the newest count.
func TestAFloodOfWordsIsBounded(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	for tx := range uint64(3 * maxWords) {
		assert.Equal(t, Unknown, r.Say("liar", Word{Position{1, 1 + tx}, "x"}))
	}
	assert.LessOrEqual(t, len(r.pipeline.words.said["liar"].kept), maxWords)
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.attest("a", raw)
	r.Say("b", word(w, raw))
	r.isTold(id, "a", Position{1, 0})
}

// TestThePipelineUnderRandomWords: orderers say words early, late, wrong ones (one of them) or none, while the peer is fed
// runs of which some are lies. Nothing is told that is not in the chain at that place in the end, and nothing is lost.
func TestThePipelineUnderRandomWords(t *testing.T) {
	for seed := range int64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomWords(t, seed) })
	}
}

func randomWords(t *testing.T, seed int64) {
	w := liarsWorld(t)
	rng := rand.New(rand.NewSource(seed))
	r := startRig(t, w, t.TempDir(), Options{})
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	rewound := func(err error) bool {
		t.Helper()
		if !errors.Is(err, ErrRewound) {
			require.NoError(t, err)
			return false
		}
		return true
	}
	ids := map[string]Position{}
	told := map[string]Position{}
	look := func() {
		for id := range ids {
			if s, err := r.Find(id); err == nil {
				told[id] = s.Position
			}
		}
	}
	hash := r.orders.Previous
	for block := uint64(1); block <= 8; block++ {
		var truth [][]byte
		hashes := []string{string(hash)}
		for n := range 1 + rng.Intn(6) {
			raw, id := w.Make(put(w, fmt.Sprint("k", rng.Intn(5)), fmt.Sprint(block, n)))
			truth = append(truth, raw)
			hash = protoutil.RunningHash(hash, raw)
			hashes = append(hashes, string(hash))
			ids[id] = Position{block, uint64(n)}
		}
		say := func(orderer string, tx int) Word { return Word{Position{block, uint64(tx)}, hashes[tx]} }
		for sent := 0; sent < len(truth); {
			at := r.Position()
			sent = int(at.Tx)
			raw := truth[min(sent, len(truth)-1)]
			if rng.Intn(5) == 0 { // a liar is followed
				raw = w.Raw(put(w, "k0", "lie"))
			}
			if rewound(r.Add(ctx, raw)) {
				continue
			}
			sent++
			if rng.Intn(2) == 0 {
				rewound(r.Attest(ctx, "followed", say("followed", min(sent, len(truth)))))
			}
			for _, orderer := range []string{"b", "c", "d"} {
				if rng.Intn(2) == 0 {
					r.Say(orderer, say(orderer, rng.Intn(len(hashes))))
				}
			}
			if rng.Intn(3) == 0 {
				r.Say("liar", Word{Position{block, uint64(rng.Intn(9))}, "lie"})
			}
			look()
		}
		header, metadata := r.orders.Seal(truth)
		for r.Height() <= block { // a lie in the run is found out now
			require.NoError(t, ctx.Err(), "nothing moves")
			if at := r.Position(); at.Block > block {
				time.Sleep(poll)
				continue
			} else if at.Tx < uint64(len(truth)) {
				rewound(r.Add(ctx, truth[at.Tx]))
				continue
			}
			gone := r.Rewound()
			if !rewound(r.Seal(ctx, header, metadata)) {
				for r.Height() <= block && !closed(gone) {
					require.NoError(t, ctx.Err(), "nothing moves")
					time.Sleep(poll)
				}
			}
		}
		hash = r.orders.Previous
	}
	r.settle()
	look()
	assert.Equal(t, ids, told)
	for n := uint64(1); n < r.Height(); n++ {
		b, err := r.Block(n)
		require.NoError(t, err)
		assert.False(t, slices.Contains(Flags(b), byte(peerpb.TxValidationCode_DUPLICATE_TXID)))
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
