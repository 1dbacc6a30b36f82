// Package liar makes a PBFT replica break the protocol in every way that needs no one else's signature.
package liar

import (
	"math/rand/v2"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
)

// Liar stands between a correct core and its links. Each has some of the habits, drawn at random.
type Liar struct {
	lies.Liar
	votes  map[place][]bft.Digest
	group  bft.Group
	view   uint64 // the highest that it has heard of
	seq    uint64
	cert   bft.Certificate
	change map[bft.ID]*pbft.ViewChange
}

const (
	equivocates     lies.Habit = "equivocates"      // proposes different entries to different replicas
	votesForAll     lies.Habit = "votes for all"    // votes and commits to whatever is proposed
	withholds       lies.Habit = "withholds"        // leaves messages out, for some replicas or for all
	garbles         lies.Habit = "garbles"          // spoils signatures and digests of its own messages
	replays         lies.Habit = "replays"          // repeats old messages, its own and others'
	rushes          lies.Habit = "rushes"           // asks for later and later views
	forgets         lies.Habit = "forgets"          // leaves out of its view changes what it holds prepared
	inventsPrepared lies.Habit = "invents prepared" // claims to hold prepared what nobody voted for
	chooses         lies.Habit = "chooses"          // begins views with fewer, repeated or altered view changes
	miscounts       lies.Habit = "miscounts"        // vouches for checkpoints that are not
	swaps           lies.Habit = "swaps"            // answers with other entries than were asked for
	floods          lies.Habit = "floods"           // names sequence numbers far away
	usurps          lies.Habit = "usurps"           // proposes in views that others lead
	claims          lies.Habit = "claims"           // says that is decided which is not
	invents         lies.Habit = "invents"          // proposes transactions that no client has signed
)

// Habits are all of them.
var Habits = []lies.Habit{
	equivocates, votesForAll, withholds, garbles, replays, rushes, forgets, inventsPrepared, chooses, miscounts, swaps, floods, usurps, claims, invents,
}

type place struct{ epoch, view, seq uint64 }

// New makes a liar.
func New(rng *rand.Rand, cfg lies.Config, oracle bft.Oracle) *Liar {
	return &Liar{
		Liar: lies.New(rng, cfg, oracle, Habits), votes: map[place][]bft.Digest{},
		change: map[bft.ID]*pbft.ViewChange{}, group: cfg.Group,
	}
}

// Says implements sim.Liar.
func (l *Liar) Says(out bft.Outgoing) []bft.Outgoing {
	l.Remember(out.Message)
	if l.Withholds(withholds, out) {
		return nil
	}
	said := []bft.Outgoing{out}
	switch m := out.Message.(type) {
	case *pbft.PrePrepare:
		l.note(m.Epoch, m.View, m.Seq)
		if l.Some(equivocates, 2) {
			l.Instead(equivocates, &said[0], l.otherProposal(m)) // its signature is its vote
		}
	case *pbft.Prepare:
		if l.Some(garbles, 4) {
			bad := *m
			bad.Signature = l.Oracle.Sign([]byte("garbled"))
			l.Instead(garbles, &said[0], &bad)
		}
	case *pbft.ViewChange:
		if l.Has(forgets) {
			l.Instead(forgets, &said[0], l.otherChange(m.Epoch, m.View, m.Stable, nil))
		}
	case *pbft.NewView:
		if l.Has(chooses) {
			l.Instead(chooses, &said[0], l.otherBeginning(m))
		}
	case *pbft.CheckpointVote:
		if l.Has(miscounts) {
			cp := m.Checkpoint
			cp.State[l.Rng.IntN(len(cp.State))]++
			l.Instead(miscounts, &said[0], &pbft.CheckpointVote{Checkpoint: cp, Signature: l.Oracle.Sign(pbft.CheckpointStatement(l.Domain, cp))})
		}
	case *bft.Have:
		if l.Some(swaps, 2) {
			l.Instead(swaps, &said[0], &bft.Have{Epoch: m.Epoch, Seq: m.Seq, Entry: &bft.Entry{Txs: append([][]byte{}, m.Entry.Txs[:len(m.Entry.Txs)/2]...)}})
		}
	}
	return said
}

func (l *Liar) note(epoch, view, seq uint64) {
	if epoch > l.group.Epoch {
		l.group = bft.Group{Epoch: epoch, Members: l.group.Members}
		l.view, l.change = 0, map[bft.ID]*pbft.ViewChange{}
	}
	l.view, l.seq = max(l.view, view), max(l.seq, seq)
}

// otherProposal is for the same place as another one.
func (l *Liar) otherProposal(m *pbft.PrePrepare) *pbft.PrePrepare {
	other := &bft.Entry{Config: m.Entry.Config}
	for i := len(m.Entry.Txs) - 1; i >= 0; i-- {
		if len(m.Entry.Txs) == 1 || l.Rng.IntN(3) > 0 {
			other.Txs = append(other.Txs, m.Entry.Txs[i])
		}
	}
	if old, ok := lies.Remembered[*pbft.PrePrepare](&l.Liar); ok && len(m.Entry.Txs) == 1 {
		other = old.Entry
	}
	return l.propose(m.Epoch, m.View, m.Seq, other)
}

func (l *Liar) propose(epoch, view, seq uint64, entry *bft.Entry) *pbft.PrePrepare {
	digest := entry.Digest()
	return &pbft.PrePrepare{Epoch: epoch, View: view, Seq: seq, Entry: entry, Signature: l.sign(epoch, view, seq, digest)}
}

func (l *Liar) sign(epoch, view, seq uint64, digest bft.Digest) []byte {
	return l.Oracle.Sign(pbft.PrepareStatement(l.Domain, epoch, view, seq, digest))
}

// Hears implements sim.Liar.
func (l *Liar) Hears(from bft.ID, m bft.Message) (said []bft.Outgoing) {
	l.Remember(m)
	switch m := m.(type) {
	case *pbft.PrePrepare:
		l.note(m.Epoch, m.View, m.Seq)
		return l.voteFor(m.Epoch, m.View, m.Seq, m.Entry.Digest())
	case *pbft.Prepare:
		l.note(m.Epoch, m.View, m.Seq)
		return l.voteFor(m.Epoch, m.View, m.Seq, m.Digest)
	case *pbft.Commit:
		l.note(m.Epoch, m.View, m.Seq)
	case *pbft.ViewChange:
		l.note(m.Epoch, m.View, 0)
		if m.Epoch == l.group.Epoch {
			l.change[m.Replica] = m
		}
		if m.Stable.Seq > l.cert.Seq {
			l.cert = m.Stable
		}
		return l.lead(m)
	case *pbft.Proof:
		for _, c := range m.Certificates {
			if c.Seq > l.cert.Seq {
				l.cert = c
			}
		}
	}
	return nil
}

// voteFor votes for a digest, whatever it has voted for before.
func (l *Liar) voteFor(epoch, view, seq uint64, digest bft.Digest) []bft.Outgoing {
	if !l.Has(votesForAll) {
		return nil
	}
	at := place{epoch, view, seq}
	for _, d := range l.votes[at] {
		if d == digest {
			return nil
		}
	}
	l.votes[at] = append(l.votes[at], digest)
	said := l.ToAll(&pbft.Prepare{Epoch: epoch, View: view, Seq: seq, Digest: digest, Signature: l.sign(epoch, view, seq, digest)})
	said = append(said, l.ToAll(&pbft.Commit{Epoch: epoch, View: view, Seq: seq, Digest: digest})...)
	if len(l.votes[at]) == 1 {
		return said // a correct replica may vote for it as well
	}
	return l.Tells(votesForAll, said...)
}

// lead begins a view that it leads as soon as one other replica asks for it.
func (l *Liar) lead(m *pbft.ViewChange) []bft.Outgoing {
	if !l.Has(chooses) || l.group.Leader(m.View) != l.ID || l.Rng.IntN(2) == 0 {
		return nil
	}
	return l.Tells(chooses, l.ToAll(l.otherBeginning(&pbft.NewView{Epoch: m.Epoch, View: m.View}))...)
}

// Schemes implements sim.Liar.
func (l *Liar) Schemes() (said []bft.Outgoing) {
	epoch := l.group.Epoch
	if l.Some(replays, 2) && len(l.Heard) > 0 {
		said = l.Tells(replays, l.Repeat(8)...)
	}
	if l.Has(rushes) {
		said = append(said, l.Tells(rushes, l.ToAll(l.otherChange(epoch, l.view+1+uint64(l.Rng.IntN(3)), l.cert, nil))...)...)
	}
	if l.Has(inventsPrepared) {
		said = append(said, l.Tells(inventsPrepared, l.ToAll(l.otherChange(epoch, l.view+1, l.cert, l.inventPrepared()))...)...)
	}
	if l.Has(floods) {
		far := l.seq + uint64(l.Rng.IntN(1<<20))
		var flood []bft.Outgoing
		for i := range uint64(2 * l.Window) {
			flood = append(flood, bft.Outgoing{To: l.Anyone(), Message: &pbft.Prepare{
				Epoch: epoch, View: l.view, Seq: far + i, Digest: bft.NullDigest, Signature: l.sign(epoch, l.view, far+i, bft.NullDigest),
			}}, bft.Outgoing{To: l.Anyone(), Message: &pbft.Commit{Epoch: epoch, View: l.view, Seq: far + i}})
		}
		said = append(said, l.Tells(floods, flood...)...)
	}
	if p, ok := lies.Remembered[*pbft.PrePrepare](&l.Liar); ok && l.Has(claims) {
		digest := p.Entry.Digest()
		var claimed []bft.Outgoing
		for i := range l.Window {
			claimed = append(claimed, bft.Outgoing{To: l.Anyone(), Message: &pbft.Commit{Epoch: epoch, Seq: l.cert.Seq + i, Digest: digest, Decided: true}})
		}
		said = append(said, l.Tells(claims, claimed...)...)
	}
	if p, ok := lies.Remembered[*pbft.PrePrepare](&l.Liar); ok && l.Has(usurps) {
		proposed := l.ToAll(l.propose(epoch, l.view, l.seq+1, p.Entry))
		if l.group.Leader(l.view) != l.ID {
			l.Tells(usurps, proposed...)
		}
		said = append(said, proposed...)
	}
	if l.Has(invents) {
		invented := &bft.Entry{Txs: [][]byte{[]byte("invented")}}
		said = append(said, l.Tells(invents, l.ToAll(l.propose(epoch, l.view, l.seq+1, invented))...)...)
		said = append(said, l.ToAll(&bft.Request{Txs: invented.Txs})...)
	}
	if l.Has(miscounts) {
		cp := l.cert.Checkpoint
		cp.Epoch, cp.Seq, cp.Next = epoch, cp.Seq+uint64(l.Rng.IntN(8)), bft.Group{Epoch: epoch + 1, Members: []bft.ID{l.ID}}
		said = append(said, l.ToAll(&pbft.CheckpointVote{Checkpoint: cp, Signature: l.Oracle.Sign(pbft.CheckpointStatement(l.Domain, cp))})...)
		own := bft.Certificate{Checkpoint: cp}
		for range l.group.Members {
			own.Signatures = append(own.Signatures, bft.Signature{By: l.ID, Bytes: l.Oracle.Sign(pbft.CheckpointStatement(l.Domain, cp))})
		}
		said = append(said, l.Tells(miscounts, l.ToAll(&pbft.Proof{Certificates: []bft.Certificate{own}})...)...)
	}
	return said
}

// inventPrepared claims what its own signature alone is under.
func (l *Liar) inventPrepared() (prepared []pbft.Prepared) {
	for i := range uint64(l.Window / 2) {
		p := pbft.Prepared{View: l.view, Seq: l.cert.Seq + 1 + i, Digest: bft.NullDigest}
		for _, id := range l.group.Members[:l.group.Quorum()] {
			p.Signatures = append(p.Signatures, bft.Signature{By: id, Bytes: l.sign(l.group.Epoch, p.View, p.Seq, p.Digest)})
		}
		prepared = append(prepared, p)
	}
	return prepared
}

func (l *Liar) otherChange(epoch, view uint64, stable bft.Certificate, prepared []pbft.Prepared) *pbft.ViewChange {
	m := &pbft.ViewChange{Epoch: epoch, View: view, Stable: stable, Prepared: prepared, Replica: l.ID}
	m.Signature = l.Oracle.Sign(m.Statement(l.Domain))
	return m
}

// otherBeginning takes view changes that suit it: too few, its own many times, or others' without what they hold prepared.
func (l *Liar) otherBeginning(m *pbft.NewView) *pbft.NewView {
	other := &pbft.NewView{Epoch: m.Epoch, View: m.View}
	own := l.otherChange(m.Epoch, m.View, l.cert, nil)
	how := l.Rng.IntN(4)
	for i, id := range l.group.Members {
		switch {
		case id == l.ID || how == 0 && i < l.group.Quorum():
			other.Changes = append(other.Changes, own)
		case how == 1 && l.change[id] != nil:
			forged := *l.change[id]
			forged.View, forged.Prepared = m.View, nil
			other.Changes = append(other.Changes, &forged)
		case how == 2 && l.change[id] != nil && l.change[id].View == m.View:
			other.Changes = append(other.Changes, l.change[id])
		case how == 3:
			forged := *own
			forged.Replica = id
			other.Changes = append(other.Changes, &forged)
		}
	}
	other.Signature = l.Oracle.Sign(other.Statement(l.Domain))
	return other
}
