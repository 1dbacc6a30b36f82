package liar

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// Schemes implements sim.Liar.
func (l *Liar) Schemes() (said []bft.Outgoing) {
	epoch := l.group.Epoch
	if l.Some(replays, 2) && len(l.Heard) > 0 {
		said = l.Tells(replays, l.Repeat(8)...)
	}
	if l.Has(accuses) {
		said = append(said, l.Tells(accuses, l.ToAll(&zyzzyva.Accuse{Epoch: epoch, View: l.view})...)...)
	}
	if l.Has(rushes) {
		said = append(said, l.Tells(rushes, l.ToAll(l.otherChange(epoch, l.view+1+uint64(l.Rng.IntN(3)), nil, l.genesis(epoch)))...)...)
	}
	if o, ok := lies.Remembered[*zyzzyva.Order](&l.Liar); ok && l.Has(inventsHistory) {
		digests := []bft.Digest{o.Entry.Digest(), bft.NullDigest}
		said = append(said, l.Tells(inventsHistory, l.ToAll(l.otherChange(epoch, l.view+1, digests, l.forged(l.view, l.stable.Seq+1, digests[0])))...)...)
		said = append(said, l.ToAll(l.otherChange(epoch, l.view+1, digests, l.cert))...)
	}
	if o, ok := lies.Remembered[*zyzzyva.Order](&l.Liar); ok && l.Has(forges) {
		cert := l.forged(o.View, o.Seq, o.Entry.Digest())
		cert.History = zyzzyva.Chain(o.History, bft.NullDigest)
		said = append(said, l.Tells(forges, l.ToAll(&zyzzyva.Commit{Certificate: cert})...)...)
		cert.Start, cert.View = true, l.view+1
		said = append(said, l.ToAll(&zyzzyva.Start{Stable: l.stable, Digests: []bft.Digest{o.Entry.Digest()}, Certificate: cert})...)
	}
	if l.Has(floods) {
		far := l.seq + uint64(l.Rng.IntN(1<<20))
		var flood []bft.Outgoing
		for i := range 2 * l.Window {
			m := &zyzzyva.Response{Epoch: epoch, View: l.view, Seq: far + i}
			m.Signature = l.sign(m)
			flood = append(flood, bft.Outgoing{To: l.Anyone(), Message: m},
				bft.Outgoing{To: l.Anyone(), Message: l.order(epoch, l.view, far+i, bft.NullDigest, &bft.Entry{Txs: [][]byte{[]byte("far")}})})
		}
		said = append(said, l.Tells(floods, flood...)...)
	}
	if o, ok := lies.Remembered[*zyzzyva.Order](&l.Liar); ok && l.Has(claims) {
		said = append(said, l.Tells(claims, l.ToAll(&zyzzyva.LocalCommit{Epoch: epoch, View: l.view, Seq: l.seq, History: o.History})...)...)
	}
	if l.Has(invents) {
		invented := &bft.Entry{Txs: [][]byte{[]byte("invented")}}
		for _, m := range l.Heard {
			if o, ok := m.(*zyzzyva.Order); ok && o.Seq == l.seq {
				said = append(said, l.Tells(invents, l.ToAll(l.order(epoch, l.view, l.seq+1, zyzzyva.Chain(o.History, invented.Digest()), invented))...)...)
				break
			}
		}
		said = append(said, l.ToAll(&bft.Request{Txs: invented.Txs})...)
	}
	if l.Has(miscounts) {
		cp := l.stable.Checkpoint
		cp.Epoch, cp.Seq, cp.Next = epoch, cp.Seq+uint64(l.Rng.IntN(8)), bft.Group{Epoch: epoch + 1, Members: []bft.ID{l.ID}}
		m := &zyzzyva.CheckpointVote{Checkpoint: cp, Signature: l.Oracle.Sign(zyzzyva.CheckpointStatement(l.Domain, cp, bft.Digest{}))}
		own := zyzzyva.Stable{Checkpoint: cp}
		for range l.group.Members {
			own.Signatures = append(own.Signatures, bft.Signature{By: l.ID, Bytes: m.Signature})
		}
		said = append(said, l.ToAll(m)...)
		said = append(said, l.Tells(miscounts, l.ToAll(&zyzzyva.Proof{Stable: []zyzzyva.Stable{own}})...)...)
	}
	return said
}

// forged is a certificate under its own signature in everybody's name, of one entry after what is stable.
func (l *Liar) forged(view, seq uint64, entry bft.Digest) zyzzyva.Certificate {
	before := l.stable.History
	if l.stable.Seq == l.group.Epoch {
		before = zyzzyva.Beginning(l.group.Epoch)
	}
	cert := zyzzyva.Certificate{Epoch: l.group.Epoch, View: view, Seq: seq, History: zyzzyva.Chain(before, entry)}
	signature := l.sign(&zyzzyva.Response{Epoch: cert.Epoch, View: view, Seq: seq, History: cert.History})
	for _, id := range l.group.Members[:l.group.Quorum()] {
		cert.Signatures = append(cert.Signatures, bft.Signature{By: id, Bytes: signature})
	}
	return cert
}

func (l *Liar) otherChange(epoch, view uint64, digests []bft.Digest, cert zyzzyva.Certificate) *zyzzyva.ViewChange {
	m := &zyzzyva.ViewChange{Epoch: epoch, View: view, Stable: l.stable, Digests: digests, Certificate: cert, Replica: l.ID}
	m.Signature = l.Oracle.Sign(m.Statement(l.Domain))
	return m
}

// otherBeginning takes view changes that suit it: too few, its own many times, or others' without their history.
func (l *Liar) otherBeginning(m *zyzzyva.NewView) *zyzzyva.NewView {
	other := &zyzzyva.NewView{Epoch: m.Epoch, View: m.View}
	own := l.otherChange(m.Epoch, m.View, nil, l.genesis(m.Epoch))
	how := l.Rng.IntN(5)
	skip := l.Anyone()
	for i, id := range l.group.Members {
		switch {
		case id == l.ID || how == 0 && i < l.group.Quorum():
			other.Changes = append(other.Changes, own)
		case how == 1 && l.change[id] != nil:
			forged := *l.change[id]
			forged.View, forged.Digests, forged.Certificate = m.View, nil, l.genesis(m.Epoch)
			other.Changes = append(other.Changes, &forged)
		case how == 2 && l.change[id] != nil && l.change[id].View == m.View,
			how == 4 && id != skip && l.change[id] != nil && l.change[id].View == m.View:
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
