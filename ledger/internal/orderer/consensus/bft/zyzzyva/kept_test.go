package zyzzyva

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// lone is the fourth of four replicas, with its disk. The test speaks for the others.
type lone struct {
	t    *testing.T
	core *Core
	disk []bft.Record
}

// newLone starts the replica with what a disk has, and a state after so many entries.
func newLone(t *testing.T, disk []bft.Record, applied uint64) *lone {
	cfg := Config{
		ID: 4, Domain: "ch", Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Pending: 8, PendingBytes: 1 << 20,
		Resend: time.Second, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	l := &lone{t: t, disk: slices.Clone(disk)}
	l.core = New(cfg, &scripttest.Replica{ID: 4}, bft.State{Applied: applied}, l.disk)
	l.do(l.core.Step(1, bft.Tick{}))
	return l
}

func (l *lone) do(e bft.Effects) bft.Effects {
	require.NoError(l.t, e.Fault)
	l.disk = append(l.disk, e.Persist...)
	return e
}

func (l *lone) hear(from bft.ID, m bft.Message) bft.Effects {
	return l.do(l.core.Step(1, bft.Received{From: from, Message: m}))
}

// entries are one of each letter, and the histories before and after each.
func entries(letters string) (es []*bft.Entry, histories []bft.Digest) {
	histories = []bft.Digest{Beginning(0)}
	for i := range letters {
		e := &bft.Entry{Txs: [][]byte{[]byte(letters[i : i+1])}}
		es, histories = append(es, e), append(histories, Chain(histories[i], e.Digest()))
	}
	return es, histories
}

// orders has the leader of a view order the letters after the first so many.
func (l *lone) orders(view uint64, after int, letters string) {
	es, histories := entries(letters)
	leader := l.core.Group.Leader(view)
	for i := after; i < len(es); i++ {
		seq := uint64(i) + 1
		l.hear(leader, &Order{
			View: view, Seq: seq, History: histories[seq], Entry: es[i],
			Signature: scripttest.Sign(leader, OrderStatement("ch", 0, view, seq, histories[seq])),
		})
	}
	require.EqualValues(l.t, len(es), l.core.Last)
}

// leaves has f+1 others give the first view up.
func (l *lone) leaves() {
	l.hear(2, &Accuse{})
	l.hear(3, &Accuse{})
	require.EqualValues(l.t, 1, l.core.InView)
}

// told has f+1 others say that the letters are final.
func (l *lone) told(view uint64, letters string) {
	es, histories := entries(letters)
	last := uint64(len(es))
	for _, id := range []bft.ID{2, 3} {
		l.hear(id, &Status{View: view, Active: true, Applied: last, Last: last, History: histories[last], Final: histories[last]})
	}
}

// signatures are those of a quorum.
func signatures(statement []byte) (signatures []bft.Signature) {
	for _, id := range []bft.ID{1, 2, 3} {
		signatures = append(signatures, bft.Signature{By: id, Bytes: scripttest.Sign(id, statement)})
	}
	return signatures
}

// begins has a view begin with the letters, after no checkpoint.
func (l *lone) begins(view uint64, letters string) {
	es, histories := entries(letters)
	m := &Start{Stable: Stable{Checkpoint: bft.Checkpoint{Next: l.core.Group}}}
	for _, e := range es {
		m.Digests = append(m.Digests, e.Digest())
	}
	last := uint64(len(es))
	m.Certificate = Certificate{
		View: view, Seq: last, History: histories[last], Start: true,
		Signatures: signatures(ConfirmStatement("ch", 0, view, last, histories[last])),
	}
	l.hear(2, m)
	require.True(l.t, l.core.Active)
}

// stable has the state after the letters be stable.
func (l *lone) stable(letters string) {
	_, histories := entries(letters)
	last := uint64(len(letters))
	s := Stable{Checkpoint: bft.Checkpoint{Seq: last, State: bft.Digest{byte(last)}, Next: l.core.Group}, History: histories[last]}
	s.Signatures = signatures(CheckpointStatement("ch", s.Checkpoint, s.History))
	l.hear(2, &Proof{Stable: []Stable{s}})
	require.Equal(l.t, last, l.core.Stable.Seq)
}

// walked is a replica that has left the first view, and misses how the next one begins, with nothing. It hears that two entries
// are final, takes them from another, and begins the view with them. Then it accepts a third.
func walked(t *testing.T) *lone {
	l := newLone(t, nil, 0)
	es, histories := entries("ab")
	l.leaves()
	l.told(1, "ab")
	l.hear(3, &Tell{Seq: 2, Before: histories[1], Entry: es[1]})
	l.hear(3, &Tell{Seq: 1, Before: histories[0], Entry: es[0]})
	require.EqualValues(t, 2, l.core.Applied)
	l.begins(1, "")
	l.orders(1, 2, "abc")
	return l
}

// TestARestartKeepsWhatWasFinalAtABeginning: what a replica has answered after it, all may have answered, and a client may have
// accepted by that.
func TestARestartKeepsWhatWasFinalAtABeginning(t *testing.T) {
	l := walked(t)
	es, _ := entries("abc")
	want := []bft.Digest{es[0].Digest(), es[1].Digest(), es[2].Digest()}
	leaves := func(t *testing.T, l *lone) {
		l.hear(1, &Accuse{View: 1})
		l.hear(3, &Accuse{View: 1})
		m := l.core.changes[3]
		require.Equal(t, want, m.Digests)
		require.True(t, newLone(t, nil, 0).core.provenChange(m))
		l.begins(2, "abc")
	}
	for applied := range uint64(3) {
		l.t = t
		leaves(t, newLone(t, l.disk, applied))
		leaves(t, newLone(t, l.core.Records(), applied))
	}
	// The disk got to some of it. Nobody has been told of what came after.
	for some := range l.disk {
		_, after := entries("abc"[:2])
		again := newLone(t, l.disk[:some], 2)
		if again.core.Active && again.core.InView == 1 {
			history, known := again.core.historyAt(2)
			require.True(t, known, some)
			require.Equal(t, after[2], history)
		}
	}
}

// TestARestartRefusesALogWithAGap: a view change with what is left would hide that more was promised.
func TestARestartRefusesALogWithAGap(t *testing.T) {
	l := newLone(t, nil, 0)
	l.orders(0, 0, "abc")
	whole := slices.Clone(l.disk)
	require.EqualValues(t, 3, newLone(t, whole, 0).core.Last)
	for lost := range 2 {
		gap := slices.Delete(slices.Clone(whole), lost, lost+1)
		core := New(l.core.cfg, &scripttest.Replica{ID: 4}, bft.State{}, gap)
		for range 2 {
			e := core.Step(1, bft.Tick{})
			require.ErrorContains(t, e.Fault, "is missing")
			require.Empty(t, e.Send)
		}
	}
}

// TestALogIsCompactWhereAViewWasLeftBehind: a checkpoint is of another history than the view that the replica is in has begun
// with. Its leader lies, and has it go on from there.
func TestALogIsCompactWhereAViewWasLeftBehind(t *testing.T) {
	l := newLone(t, nil, 0)
	l.orders(0, 0, "abcdef")
	l.leaves()
	l.begins(1, "abcdef")
	l.stable("abcx")
	l.do(l.core.Step(time.Minute, bft.Tick{}))
	require.EqualValues(t, 4, l.core.Fetching)
	l.orders(1, 4, "abcxyzuv")
	for _, disk := range [][]bft.Record{l.disk, l.core.Records()} {
		again := newLone(t, disk, 0)
		require.EqualValues(t, 8, again.core.Last)
		require.Len(t, again.core.digests(8), 4)
	}
}

// TestWhatIsKeptIsSignedForTheNewView: an entry that stays where a view begins has no order of its leader's, and the replica's own
// signature is of the view before.
func TestWhatIsKeptIsSignedForTheNewView(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		l := newLone(t, nil, 0)
		l.orders(0, 0, "abcd")
		l.told(0, "abcd")
		require.EqualValues(t, 4, l.core.Applied)
		if checkpoint {
			l.stable("abcd")
		}
		l.leaves()
		l.begins(1, "")
		require.EqualValues(t, 4, l.core.Last)
		responses := 0
		for _, out := range l.hear(1, &Status{View: 1, Active: true, History: Beginning(0), Final: Beginning(0)}).Send {
			switch m := out.Message.(type) {
			case *Order:
				require.True(t, scripttest.Verify(2, OrderStatement("ch", 0, m.View, m.Seq, m.History), m.Signature), m.Seq)
			case *Response:
				responses++
				require.True(t, scripttest.Verify(4, ResponseStatement("ch", 0, m.View, m.Seq, m.History), m.Signature), m.Seq)
				require.Empty(t, m.Order)
			}
		}
		require.Equal(t, 1, responses)
	}
}

// TestARestartKeepsACheckpointOverAWrongEntry: the replica accepted another entry than the checkpoint's at its very number, and
// fetches.
func TestARestartKeepsACheckpointOverAWrongEntry(t *testing.T) {
	l := newLone(t, nil, 0)
	l.stable("abcd")
	l.orders(0, 0, "abcx")
	require.EqualValues(t, 4, l.core.Fetching)
	l.orders(0, 4, "abcde")
	want, _ := l.core.historyAt(4)
	for _, disk := range [][]bft.Record{l.disk, l.core.Records()} {
		again := newLone(t, disk, 0)
		require.EqualValues(t, 5, again.core.Last)
		history, known := again.core.historyAt(4)
		require.True(t, known)
		require.Equal(t, want, history)
	}
}

// TestARestartAppliesWhatIsStable: the ledger is behind, and the log has the entries up to the checkpoint.
func TestARestartAppliesWhatIsStable(t *testing.T) {
	l := newLone(t, nil, 0)
	l.leaves()
	l.begins(1, "")
	l.orders(1, 0, "abcdefgh")
	l.told(1, "abcdefgh")
	l.stable("abcdefgh")
	l.orders(1, 8, "abcdefghijkl")
	l.stable("abcdefghijkl")
	require.EqualValues(t, 8, l.core.Applied)
	for _, disk := range [][]bft.Record{l.disk, l.core.Records()} {
		again := newLone(t, disk, 8)
		require.EqualValues(t, 12, again.core.Applied)
		require.Zero(t, again.core.Fetching)
		require.True(t, again.core.Active)
	}
}
