// Package liar makes a Zyzzyva replica break the protocol in every way that needs no one else's signature.
package liar

import (
	"math/rand/v2"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// Liar stands between a correct core and its links. Each has some of the habits, drawn at random.
type Liar struct {
	lies.Liar
	group   bft.Group
	view    uint64 // the highest that it has heard of
	seq     uint64
	stable  zyzzyva.Stable
	cert    zyzzyva.Certificate
	change  map[bft.ID]*zyzzyva.ViewChange
	split   map[uint64]*zyzzyva.Order // what it tells half of the others in place of its own orders
	history map[uint64]bft.Digest     // that they then have
	echoed  map[echoed]bool
}

// echoed is what it has agreed with: two that agree with each other would not come to an end.
type echoed struct {
	to               bft.ID
	epoch, view, seq uint64
	history          bft.Digest
}

const (
	equivocates    lies.Habit = "equivocates"     // orders different entries for different replicas, each in a whole history of its own
	breaks         lies.Habit = "breaks"          // orders what does not follow its history
	echoes         lies.Habit = "echoes"          // answers clients and replicas with whatever history it hears of
	withholds      lies.Habit = "withholds"       // leaves messages out, for some or for all
	garbles        lies.Habit = "garbles"         // spoils signatures and histories of its own messages
	replays        lies.Habit = "replays"         // repeats old messages, its own and others'
	rushes         lies.Habit = "rushes"          // asks for later and later views
	accuses        lies.Habit = "accuses"         // wants every view to end
	forgets        lies.Habit = "forgets"         // leaves its history, or its certificate, out of its view changes
	inventsHistory lies.Habit = "invents history" // names a history in view changes that nobody has
	forges         lies.Habit = "forges"          // makes certificates with its own signature in everybody's name
	chooses        lies.Habit = "chooses"         // begins views with fewer, repeated or altered view changes
	miscounts      lies.Habit = "miscounts"       // vouches for checkpoints that are not
	swaps          lies.Habit = "swaps"           // answers with other entries than were asked for, and hands orders on with others
	floods         lies.Habit = "floods"          // names sequence numbers far away
	claims         lies.Habit = "claims"          // tells clients that all is final, and replicas that it holds certificates
	invents        lies.Habit = "invents"         // orders transactions that no client has signed
)

// Habits are all of them.
var Habits = []lies.Habit{
	equivocates, breaks, echoes, withholds, garbles, replays, rushes, accuses, forgets, inventsHistory, forges, chooses, miscounts, swaps, floods, claims, invents,
}

// New makes a liar.
func New(rng *rand.Rand, cfg lies.Config, oracle bft.Oracle) *Liar {
	l := &Liar{
		Liar: lies.New(rng, cfg, oracle, Habits), change: map[bft.ID]*zyzzyva.ViewChange{}, group: cfg.Group,
		split: map[uint64]*zyzzyva.Order{}, history: map[uint64]bft.Digest{}, echoed: map[echoed]bool{},
	}
	l.stable.Next = cfg.Group
	return l
}

func (l *Liar) note(epoch, view, seq uint64) {
	if epoch > l.group.Epoch {
		l.group = bft.Group{Epoch: epoch, Members: l.group.Members}
		l.view, l.change = 0, map[bft.ID]*zyzzyva.ViewChange{}
	}
	if view > l.view {
		clear(l.split)
		clear(l.history)
	}
	l.view, l.seq = max(l.view, view), max(l.seq, seq)
}

// Says implements sim.Liar.
func (l *Liar) Says(out bft.Outgoing) []bft.Outgoing {
	l.Remember(out.Message)
	if l.Withholds(withholds, out) {
		return nil
	}
	said := []bft.Outgoing{out}
	switch m := out.Message.(type) {
	case *zyzzyva.Order:
		l.note(m.Epoch, m.View, m.Seq)
		if l.Has(equivocates) && out.To%2 == 0 {
			l.Instead(equivocates, &said[0], l.otherOrder(m))
		} else if l.Some(breaks, 8) {
			l.Instead(breaks, &said[0], l.order(m.Epoch, m.View, m.Seq, zyzzyva.Chain(m.History, bft.NullDigest), m.Entry))
		}
	case *zyzzyva.Response:
		l.otherResponse(&said[0], m)
	case *zyzzyva.LocalCommit:
		if l.Some(garbles, 4) {
			bad := *m
			bad.History[0]++
			l.Instead(garbles, &said[0], &bad)
		}
	case *zyzzyva.ViewChange:
		if l.Has(forgets) {
			l.Instead(forgets, &said[0], l.otherChange(m.Epoch, m.View, nil, l.genesis(m.Epoch)))
		}
	case *zyzzyva.NewView:
		if l.Has(chooses) {
			l.Instead(chooses, &said[0], l.otherBeginning(m))
		}
	case *zyzzyva.CheckpointVote:
		if l.Has(miscounts) {
			l.Instead(miscounts, &said[0], l.otherVote(m))
		}
	case *bft.Have:
		if l.Some(swaps, 2) {
			l.Instead(swaps, &said[0], &bft.Have{Epoch: m.Epoch, Seq: m.Seq, Entry: &bft.Entry{Txs: m.Entry.Txs[:len(m.Entry.Txs)/2]}})
		}
	}
	return said
}

func (l *Liar) genesis(epoch uint64) zyzzyva.Certificate {
	return zyzzyva.Certificate{Epoch: epoch, Seq: epoch, History: zyzzyva.Beginning(epoch), Start: true}
}

func (l *Liar) otherVote(m *zyzzyva.CheckpointVote) *zyzzyva.CheckpointVote {
	other := *m
	if l.Rng.IntN(2) == 0 {
		other.Checkpoint.State[l.Rng.IntN(len(other.Checkpoint.State))]++
	} else {
		other.History[0]++
	}
	other.Signature = l.Oracle.Sign(zyzzyva.CheckpointStatement(l.Domain, other.Checkpoint, other.History))
	return &other
}

// otherOrder goes on with the history that half of the others have been told.
func (l *Liar) otherOrder(m *zyzzyva.Order) *zyzzyva.Order {
	if old := l.split[m.Seq]; old != nil && old.View == m.View {
		return old
	}
	entry := &bft.Entry{Config: m.Entry.Config}
	for i := len(m.Entry.Txs) - 1; i >= 0; i-- {
		if len(m.Entry.Txs) == 1 || l.Rng.IntN(3) > 0 {
			entry.Txs = append(entry.Txs, m.Entry.Txs[i])
		}
	}
	if old, ok := lies.Remembered[*zyzzyva.Order](&l.Liar); ok && len(m.Entry.Txs) == 1 {
		entry = old.Entry
	}
	history, digest := m.History, entry.Digest()
	if before, has := l.history[m.Seq-1]; has {
		history = zyzzyva.Chain(before, digest)
	} else if before := l.historyBefore(m); before != nil {
		history = zyzzyva.Chain(*before, digest)
	}
	other := l.order(m.Epoch, m.View, m.Seq, history, entry)
	l.split[m.Seq], l.history[m.Seq] = other, history
	return other
}

// doctor hands an order on with another entry.
func (l *Liar) doctor(m *zyzzyva.Order) []bft.Outgoing {
	old, ok := lies.Remembered[*zyzzyva.Order](&l.Liar)
	if !ok || !l.Some(swaps, 2) {
		return nil
	}
	other := *m
	other.Entry = old.Entry
	return l.Tells(swaps, l.ToAll(&other)...)
}

// historyBefore is what an order goes on from, where the liar remembers that.
func (l *Liar) historyBefore(m *zyzzyva.Order) *bft.Digest {
	if m.Seq == m.Epoch+1 {
		h := zyzzyva.Beginning(m.Epoch)
		return &h
	}
	for _, old := range l.Heard {
		if o, ok := old.(*zyzzyva.Order); ok && o.Epoch == m.Epoch && o.Seq == m.Seq-1 && zyzzyva.Chain(o.History, m.Entry.Digest()) == m.History {
			return &o.History
		}
	}
	return nil
}

func (l *Liar) order(epoch, view, seq uint64, history bft.Digest, entry *bft.Entry) *zyzzyva.Order {
	return &zyzzyva.Order{
		Epoch: epoch, View: view, Seq: seq, History: history, Entry: entry,
		Signature: l.Oracle.Sign(zyzzyva.OrderStatement(l.Domain, epoch, view, seq, history)),
	}
}

// otherResponse is for the history that the receiver has been told, or for one that nobody has.
func (l *Liar) otherResponse(out *bft.Outgoing, m *zyzzyva.Response) {
	other := *m
	var by lies.Habit
	switch {
	case m.Final:
	case l.Has(equivocates) && out.To%2 == 0 && l.split[m.Seq] != nil:
		by = equivocates
		other.History, other.Order = l.split[m.Seq].History, l.split[m.Seq].Signature
	case l.Some(garbles, 4):
		by = garbles
		other.History[0]++
	case l.Some(claims, 4):
		by = claims
		other.Final = true
	}
	if !other.Final {
		other.Signature = l.sign(&other)
	}
	if by == "" {
		out.Message = &other
	} else {
		l.Instead(by, out, &other)
	}
}

func (l *Liar) sign(m *zyzzyva.Response) []byte {
	return l.Oracle.Sign(zyzzyva.ResponseStatement(l.Domain, m.Epoch, m.View, m.Seq, m.History))
}

// Hears implements sim.Liar.
func (l *Liar) Hears(from bft.ID, m bft.Message) []bft.Outgoing {
	l.Remember(m)
	switch m := m.(type) {
	case *zyzzyva.Order:
		l.note(m.Epoch, m.View, m.Seq)
		return append(l.echo(from, m.Epoch, m.View, m.Seq, m.History), l.doctor(m)...)
	case *zyzzyva.Response:
		l.note(m.Epoch, m.View, m.Seq)
		return l.echo(from, m.Epoch, m.View, m.Seq, m.History)
	case *zyzzyva.Commit:
		if m.Certificate.Seq > l.cert.Seq {
			l.cert = m.Certificate
		}
	case *zyzzyva.Confirm:
		said := echoed{0, m.Epoch, m.View, m.Seq, m.History}
		if l.Has(echoes) && !l.echoed[said] {
			l.echoed[said] = true
			return l.Tells(echoes, l.ToAll(&zyzzyva.Confirm{
				Epoch: m.Epoch, View: m.View, Seq: m.Seq, History: m.History,
				Signature: l.Oracle.Sign(zyzzyva.ConfirmStatement(l.Domain, m.Epoch, m.View, m.Seq, m.History)),
			})...)
		}
	case *zyzzyva.ViewChange:
		l.note(m.Epoch, m.View, 0)
		if m.Epoch == l.group.Epoch {
			l.change[m.Replica] = m
		}
		if m.Stable.Seq > l.stable.Seq {
			l.stable = m.Stable
		}
		return l.lead(m)
	case *zyzzyva.Proof:
		for _, s := range m.Stable {
			if s.Seq > l.stable.Seq {
				l.stable = s
			}
		}
	}
	return nil
}

// echo agrees with whoever says anything, whatever it has said before, and helps them to a certificate.
func (l *Liar) echo(to bft.ID, epoch, view, seq uint64, history bft.Digest) []bft.Outgoing {
	said := echoed{to, epoch, view, seq, history}
	if !l.Has(echoes) || l.echoed[said] {
		return nil
	}
	l.echoed[said] = true
	m := &zyzzyva.Response{Epoch: epoch, View: view, Seq: seq, History: history}
	m.Signature = l.sign(m)
	return l.Tells(
		echoes, bft.Outgoing{To: to, Message: m},
		bft.Outgoing{To: to, Message: &zyzzyva.LocalCommit{Epoch: epoch, View: view, Seq: seq, History: history}},
	)
}

// lead begins a view that it leads as soon as one other replica asks for it.
func (l *Liar) lead(m *zyzzyva.ViewChange) []bft.Outgoing {
	if !l.Has(chooses) || l.group.Leader(m.View) != l.ID || l.Rng.IntN(2) == 0 {
		return nil
	}
	var said []bft.Outgoing
	for _, id := range l.Peers { // each another beginning
		said = append(said, bft.Outgoing{To: id, Message: l.otherBeginning(&zyzzyva.NewView{Epoch: m.Epoch, View: m.View})})
	}
	return l.Tells(chooses, said...)
}
