// Package liar makes a PBFT replica break the protocol in every way that needs no one else's signature.
package liar

import (
	"math/rand/v2"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
)

// Config is who lies.
type Config struct {
	ID     bft.ID
	Domain string
	Group  bft.Group // of the first epoch; lies are told to all that were ever heard of
	Window uint64
	// Every gives it all habits.
	Every bool
}

// Liar stands between a correct core and its links. Each has some of the habits, drawn at random.
type Liar struct {
	cfg    Config
	oracle bft.Oracle
	rng    *rand.Rand
	habits map[habit]bool
	peers  []bft.ID
	heard  []bft.Message // the last ones, its own too
	votes  map[place][]bft.Digest
	group  bft.Group
	view   uint64 // the highest that it has heard of
	seq    uint64
	cert   bft.Certificate
	change map[bft.ID]*pbft.ViewChange
}

type habit int

const (
	equivocates     habit = iota // proposes different entries to different replicas
	votesForAll                  // votes and commits to whatever is proposed
	withholds                    // leaves messages out, for some replicas or for all
	garbles                      // spoils signatures and digests of its own messages
	replays                      // repeats old messages, its own and others'
	rushes                       // asks for later and later views
	forgets                      // leaves out of its view changes what it holds prepared
	inventsPrepared              // claims to hold prepared what nobody voted for
	chooses                      // begins views with fewer, repeated or altered view changes
	miscounts                    // vouches for checkpoints that are not
	swaps                        // answers with other entries than were asked for
	floods                       // names sequence numbers far away
	usurps                       // proposes in views that others lead
	claims                       // says that is decided which is not
	invents                      // proposes transactions that no client has signed
	habits
)

type place struct{ epoch, view, seq uint64 }

const remembered = 64

// New makes a liar.
func New(rng *rand.Rand, cfg Config, oracle bft.Oracle) *Liar {
	l := &Liar{
		cfg: cfg, oracle: oracle, rng: rng, habits: map[habit]bool{}, votes: map[place][]bft.Digest{},
		change: map[bft.ID]*pbft.ViewChange{}, group: cfg.Group,
	}
	for _, id := range cfg.Group.Members {
		if id != cfg.ID {
			l.peers = append(l.peers, id)
		}
	}
	for h := range habits {
		l.habits[h] = cfg.Every || rng.IntN(3) == 0
	}
	return l
}

func (l *Liar) some(h habit, one int) bool { return l.habits[h] && l.rng.IntN(one) == 0 }

func (l *Liar) remember(m bft.Message) {
	if len(l.heard) < remembered {
		l.heard = append(l.heard, m)
	} else {
		l.heard[l.rng.IntN(remembered)] = m
	}
}

func (l *Liar) toAll(m bft.Message) (out []bft.Outgoing) {
	for _, id := range l.peers {
		out = append(out, bft.Outgoing{To: id, Message: m})
	}
	return out
}

func (l *Liar) anyone() bft.ID { return l.peers[l.rng.IntN(len(l.peers))] }

// Says implements sim.Liar.
func (l *Liar) Says(out bft.Outgoing) []bft.Outgoing {
	l.remember(out.Message)
	if l.some(withholds, 3) {
		return nil
	}
	said := []bft.Outgoing{out}
	switch m := out.Message.(type) {
	case *pbft.PrePrepare:
		l.note(m.Epoch, m.View, m.Seq)
		if l.some(equivocates, 2) {
			said[0].Message = l.otherProposal(m)
		}
	case *pbft.Prepare:
		if l.some(garbles, 4) {
			bad := *m
			bad.Signature = l.oracle.Sign([]byte("garbled"))
			said[0].Message = &bad
		}
	case *pbft.ViewChange:
		if l.habits[forgets] {
			said[0].Message = l.otherChange(m.Epoch, m.View, m.Stable, nil)
		}
	case *pbft.NewView:
		if l.habits[chooses] {
			said[0].Message = l.otherBeginning(m)
		}
	case *pbft.CheckpointVote:
		if l.habits[miscounts] {
			cp := m.Checkpoint
			cp.State[l.rng.IntN(len(cp.State))]++
			said[0].Message = &pbft.CheckpointVote{Checkpoint: cp, Signature: l.oracle.Sign(pbft.CheckpointStatement(l.cfg.Domain, cp))}
		}
	case *pbft.Have:
		if l.some(swaps, 2) {
			said[0].Message = &pbft.Have{Epoch: m.Epoch, Seq: m.Seq, Entry: &bft.Entry{Txs: append([][]byte{}, m.Entry.Txs[:len(m.Entry.Txs)/2]...)}}
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
		if len(m.Entry.Txs) == 1 || l.rng.IntN(3) > 0 {
			other.Txs = append(other.Txs, m.Entry.Txs[i])
		}
	}
	if old := l.proposal(); old != nil && len(m.Entry.Txs) == 1 {
		other = old.Entry
	}
	return l.propose(m.Epoch, m.View, m.Seq, other)
}

func (l *Liar) propose(epoch, view, seq uint64, entry *bft.Entry) *pbft.PrePrepare {
	digest := entry.Digest()
	return &pbft.PrePrepare{Epoch: epoch, View: view, Seq: seq, Entry: entry, Signature: l.sign(epoch, view, seq, digest)}
}

func (l *Liar) sign(epoch, view, seq uint64, digest bft.Digest) []byte {
	return l.oracle.Sign(pbft.PrepareStatement(l.cfg.Domain, epoch, view, seq, digest))
}

// proposal is one that it remembers.
func (l *Liar) proposal() *pbft.PrePrepare {
	for _, m := range l.heard {
		if p, ok := m.(*pbft.PrePrepare); ok && l.rng.IntN(2) == 0 {
			return p
		}
	}
	return nil
}

// Hears implements sim.Liar.
func (l *Liar) Hears(from bft.ID, m bft.Message) (said []bft.Outgoing) {
	l.remember(m)
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
	if !l.habits[votesForAll] {
		return nil
	}
	at := place{epoch, view, seq}
	for _, d := range l.votes[at] {
		if d == digest {
			return nil
		}
	}
	l.votes[at] = append(l.votes[at], digest)
	said := l.toAll(&pbft.Prepare{Epoch: epoch, View: view, Seq: seq, Digest: digest, Signature: l.sign(epoch, view, seq, digest)})
	return append(said, l.toAll(&pbft.Commit{Epoch: epoch, View: view, Seq: seq, Digest: digest})...)
}

// lead begins a view that it leads as soon as one other replica asks for it.
func (l *Liar) lead(m *pbft.ViewChange) []bft.Outgoing {
	if !l.habits[chooses] || l.group.Leader(m.View) != l.cfg.ID || l.rng.IntN(2) == 0 {
		return nil
	}
	return l.toAll(l.otherBeginning(&pbft.NewView{Epoch: m.Epoch, View: m.View}))
}

// Schemes implements sim.Liar.
func (l *Liar) Schemes() (said []bft.Outgoing) {
	epoch := l.group.Epoch
	if l.some(replays, 2) && len(l.heard) > 0 {
		for range 8 {
			said = append(said, bft.Outgoing{To: l.anyone(), Message: l.heard[l.rng.IntN(len(l.heard))]})
		}
	}
	if l.habits[rushes] {
		said = append(said, l.toAll(l.otherChange(epoch, l.view+1+uint64(l.rng.IntN(3)), l.cert, nil))...)
	}
	if l.habits[inventsPrepared] {
		said = append(said, l.toAll(l.otherChange(epoch, l.view+1, l.cert, l.inventPrepared()))...)
	}
	if l.habits[floods] {
		far := l.seq + uint64(l.rng.IntN(1<<20))
		for i := range uint64(2 * l.cfg.Window) {
			said = append(said, bft.Outgoing{To: l.anyone(), Message: &pbft.Prepare{
				Epoch: epoch, View: l.view, Seq: far + i, Digest: bft.NullDigest, Signature: l.sign(epoch, l.view, far+i, bft.NullDigest),
			}}, bft.Outgoing{To: l.anyone(), Message: &pbft.Commit{Epoch: epoch, View: l.view, Seq: far + i}})
		}
	}
	if p := l.proposal(); l.habits[claims] && p != nil {
		digest := p.Entry.Digest()
		for i := range l.cfg.Window {
			said = append(said, bft.Outgoing{To: l.anyone(), Message: &pbft.Commit{Epoch: epoch, Seq: l.cert.Seq + i, Digest: digest, Decided: true}})
		}
	}
	if p := l.proposal(); l.habits[usurps] && p != nil {
		said = append(said, l.toAll(l.propose(epoch, l.view, l.seq+1, p.Entry))...)
	}
	if l.habits[invents] {
		invented := &bft.Entry{Txs: [][]byte{[]byte("invented")}}
		said = append(said, l.toAll(l.propose(epoch, l.view, l.seq+1, invented))...)
		said = append(said, l.toAll(&pbft.Request{Txs: invented.Txs})...)
	}
	if l.habits[miscounts] {
		cp := l.cert.Checkpoint
		cp.Epoch, cp.Seq, cp.Next = epoch, cp.Seq+uint64(l.rng.IntN(8)), bft.Group{Epoch: epoch + 1, Members: []bft.ID{l.cfg.ID}}
		said = append(said, l.toAll(&pbft.CheckpointVote{Checkpoint: cp, Signature: l.oracle.Sign(pbft.CheckpointStatement(l.cfg.Domain, cp))})...)
		own := bft.Certificate{Checkpoint: cp}
		for range l.group.Members {
			own.Signatures = append(own.Signatures, bft.Signature{By: l.cfg.ID, Bytes: l.oracle.Sign(pbft.CheckpointStatement(l.cfg.Domain, cp))})
		}
		said = append(said, l.toAll(&pbft.Proof{Certificates: []bft.Certificate{own}})...)
	}
	return said
}

// inventPrepared claims what its own signature alone is under.
func (l *Liar) inventPrepared() (prepared []pbft.Prepared) {
	for i := range uint64(l.cfg.Window / 2) {
		p := pbft.Prepared{View: l.view, Seq: l.cert.Seq + 1 + i, Digest: bft.NullDigest}
		for _, id := range l.group.Members[:l.group.Quorum()] {
			p.Signatures = append(p.Signatures, bft.Signature{By: id, Bytes: l.sign(l.group.Epoch, p.View, p.Seq, p.Digest)})
		}
		prepared = append(prepared, p)
	}
	return prepared
}

func (l *Liar) otherChange(epoch, view uint64, stable bft.Certificate, prepared []pbft.Prepared) *pbft.ViewChange {
	m := &pbft.ViewChange{Epoch: epoch, View: view, Stable: stable, Prepared: prepared, Replica: l.cfg.ID}
	m.Signature = l.oracle.Sign(m.Statement(l.cfg.Domain))
	return m
}

// otherBeginning takes view changes that suit it: too few, its own many times, or others' without what they hold prepared.
func (l *Liar) otherBeginning(m *pbft.NewView) *pbft.NewView {
	other := &pbft.NewView{Epoch: m.Epoch, View: m.View}
	own := l.otherChange(m.Epoch, m.View, l.cert, nil)
	how := l.rng.IntN(4)
	for i, id := range l.group.Members {
		switch {
		case id == l.cfg.ID || how == 0 && i < l.group.Quorum():
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
	other.Signature = l.oracle.Sign(other.Statement(l.cfg.Domain))
	return other
}
