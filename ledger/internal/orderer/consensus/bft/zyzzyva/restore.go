package zyzzyva

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// ViewRecord: the replica is in this view, and has left those before.
type ViewRecord struct {
	Epoch, View uint64
	Active      bool
}

// AcceptRecord: the replica's history goes on with this entry.
type AcceptRecord struct {
	Epoch, Seq uint64
	History    bft.Digest
	Entry      *bft.Entry
	Order      []byte
}

// CertificateRecord: the replica holds this certificate, and has told so.
type CertificateRecord struct{ Certificate Certificate }

// ConfirmRecord: the replica begins the view so and not otherwise. A nil entry is one that was stable before.
type ConfirmRecord struct {
	Epoch, View uint64
	Stable      Stable
	Digests     []bft.Digest
	Entries     []*bft.Entry
}

// StartRecord: the view has begun as it was confirmed.
type StartRecord struct{ Certificate Certificate }

// StableRecord: all records of entries up to the checkpoint are obsolete.
type StableRecord struct{ Stable Stable }

// VoteRecord: the replica has vouched for this state.
type VoteRecord struct {
	Checkpoint bft.Checkpoint
	History    bft.Digest
}

// BodyRecord: a view may begin with this entry, which is not part of the replica's history.
type BodyRecord struct{ Entry *bft.Entry }

// Kind implements bft.Record; so do those below.
func (*ViewRecord) Kind() string        { return "view" }
func (*AcceptRecord) Kind() string      { return "accept" }
func (*CertificateRecord) Kind() string { return "certificate" }
func (*ConfirmRecord) Kind() string     { return "confirm" }
func (*StartRecord) Kind() string       { return "start" }
func (*StableRecord) Kind() string      { return "stable" }
func (*VoteRecord) Kind() string        { return "vote" }
func (*BodyRecord) Kind() string        { return "body" }

// restore takes up where the records end.
func (c *Core) restore(records []bft.Record) {
	// What is applied may be ahead of what a record knew.
	closed, applied := c.Closed, c.Applied
	if len(records) > 0 {
		c.Applied, c.final = 0, 0
	}
	for _, r := range records {
		c.replay(r)
	}
	c.Applied, c.final = applied, max(applied, c.final)
	// The configuration that the state ends with has opened its epoch already.
	c.Closed = closed && c.Applied > c.Start.Seq
	if c.Last < c.Applied { // the state was fetched
		c.Last, c.tip = c.Stable.Seq, c.stableHistory()
		c.anchor(c.Last, c.tip)
	}
	if c.leadsToStable() {
		c.final = max(c.final, c.Stable.Seq)
	}
	if c.Applied < c.Stable.Seq {
		c.Behind = 1
	}
	c.Settled = c.Floor()
	for seq := range c.slots {
		if seq < c.Settled {
			delete(c.slots, seq)
		}
	}
	for tx, at := range c.places {
		if at <= c.Applied {
			delete(c.places, tx)
		}
	}
	for len(c.own) > 0 && c.own[0].Seq <= c.Stable.Seq {
		c.own = c.own[1:]
	}
	vouched := len(c.own) > 0 && c.own[len(c.own)-1].Seq >= c.Applied
	c.Resync = !vouched && c.Applied > c.Stable.Seq && (c.Closed || c.Boundary(c.Applied, c.cfg.Interval))
	if at := c.Group.Index(c.ID); at >= 0 {
		for _, own := range c.own {
			c.votes.Add(at, own.Seq, own, c.checkpointVote(own).Signature)
		}
		if !c.Active {
			c.changes[at] = c.viewChange()
			if c.planned != nil && c.planned.held {
				c.castConfirm(at)
			}
		} else if local := c.localCommit(); local != nil {
			c.locals[at] = *local
		}
	}
	c.Out = bft.Effects{}
	c.enterNext()
	c.First = append(c.First, c.Out.Persist...) // a crash came between the end of an epoch and the record of the next
	c.Out, c.ran, c.executed = bft.Effects{}, map[uint64]bft.Digest{}, c.Applied
}

// leadsToStable reports whether all entries between what is applied and the stable checkpoint are here.
func (c *Core) leadsToStable() bool {
	history := c.stableHistory()
	for seq := c.Stable.Seq; seq > c.Applied; seq-- {
		s := c.slots[seq]
		if s == nil || s.entry == nil || s.history != history {
			return false
		}
		if before := c.slots[seq-1]; before != nil {
			history = before.history
			if s.history != Chain(history, s.digest) {
				return false
			}
		} else if seq > c.Applied+1 {
			return false
		}
	}
	return true
}

func (c *Core) replay(r bft.Record) {
	switch r := r.(type) {
	case *StableRecord:
		history, known := c.historyAt(r.Stable.Seq)
		before := c.Stable.Seq
		c.Stable = r.Stable
		switch {
		case c.Last < c.Stable.Seq || !known:
		case history == c.Stable.History:
			c.final = max(c.final, c.Stable.Seq)
		default:
			c.astray(before)
		}
		if c.Last < c.Stable.Seq {
			c.Last, c.tip = c.Stable.Seq, c.stableHistory()
			c.anchor(c.Last, c.tip)
		}
	case *ViewRecord:
		if r.Epoch != c.Group.Epoch {
			c.enter()
			return
		}
		c.turn(r.View)
		c.Active = r.Active
	case *AcceptRecord:
		if r.Epoch == c.Group.Epoch {
			c.replayEntry(r)
		}
	case *CertificateRecord:
		if r.Certificate.Epoch == c.Group.Epoch {
			c.hold(r.Certificate)
		}
	case *ConfirmRecord:
		if r.Epoch != c.Group.Epoch {
			return
		}
		p := newPlan(r.Stable, r.Digests, c.Start.Seq, c.Group.Epoch)
		p.held = true
		for _, e := range r.Entries {
			if e != nil {
				c.bodies[e.Digest()] = e
			}
		}
		c.planned = p
	case *StartRecord:
		if p := c.planned; r.Certificate.Epoch == c.Group.Epoch && p != nil && c.replace(p) {
			c.began(p, r.Certificate)
		}
	case *VoteRecord:
		if r.Checkpoint.Epoch == c.Group.Epoch {
			c.own = append(c.own, vouched{r.Checkpoint, r.History})
		}
	case *BodyRecord:
		c.bodies[r.Entry.Digest()] = r.Entry
	}
}

func (c *Core) replayEntry(r *AcceptRecord) {
	s := &slot{digest: r.Entry.Digest(), history: r.History, entry: r.Entry, order: r.Order}
	if r.Seq <= c.Stable.Seq {
		if r.Seq > c.Applied {
			c.slots[r.Seq] = s // stable and not applied
		}
		return
	}
	c.astray(r.Seq - 1)
	c.slots[r.Seq], c.Last, c.tip = s, r.Seq, r.History
	c.note(r.Seq, s)
}

// Records implements bft.Core.
func (c *Core) Records() []bft.Record {
	var records []bft.Record
	for i := range c.Ends {
		end := c.Ends[i]
		records = append(records, &StableRecord{Stable: end}, &ViewRecord{Epoch: end.Next.Epoch, Active: true})
	}
	if c.Stable.Seq > c.Start.Seq {
		records = append(records, &StableRecord{Stable: c.Stable})
	}
	for _, own := range c.own {
		records = append(records, &VoteRecord{Checkpoint: own.Checkpoint, History: own.history})
	}
	epoch, from := c.Group.Epoch, c.Floor()+1
	accepted := func(to uint64) {
		for ; from <= to; from++ {
			if s := c.slots[from]; s != nil && s.entry != nil {
				records = append(records, &AcceptRecord{Epoch: epoch, Seq: from, History: s.history, Entry: s.entry, Order: s.order})
			}
		}
	}
	if c.Active && c.InView > 0 {
		accepted(c.Stable.Seq)
		records = append(records, &ViewRecord{Epoch: epoch, View: c.InView}, c.confirmRecord(), &StartRecord{Certificate: c.begun.Certificate})
		from = max(from, c.base+1)
	}
	accepted(c.Last)
	if !c.cert.Start || c.cert.View > 0 {
		records = append(records, &CertificateRecord{Certificate: c.cert})
	}
	if c.Active {
		return records
	}
	for _, d := range slices.SortedFunc(maps.Keys(c.bodies), func(a, b bft.Digest) int { return bytes.Compare(a[:], b[:]) }) {
		records = append(records, &BodyRecord{Entry: c.bodies[d]})
	}
	records = append(records, &ViewRecord{Epoch: epoch, View: c.InView})
	if c.planned != nil && c.planned.held {
		records = append(records, c.confirmRecord())
	}
	return records
}

// confirmRecord has those entries of the plan that are still needed.
func (c *Core) confirmRecord() *ConfirmRecord {
	p := c.planned
	r := &ConfirmRecord{Epoch: c.Group.Epoch, View: c.InView, Stable: p.stable, Digests: p.digests, Entries: make([]*bft.Entry, len(p.digests))}
	for i, d := range p.digests {
		if seq := p.stable.Seq + 1 + uint64(i); seq > c.Stable.Seq {
			r.Entries[i] = c.body(seq, d)
		}
	}
	return r
}

// CheckpointOf is what a record says of a state; stable: a quorum says so.
func CheckpointOf(r bft.Record) (cp bft.Checkpoint, stable, is bool) {
	switch r := r.(type) {
	case *StableRecord:
		return r.Stable.Checkpoint, true, true
	case *VoteRecord:
		return r.Checkpoint, false, true
	}
	return cp, false, false
}

// The first byte of each record.
const (
	recordView = iota + 1
	recordAccept
	recordCertificate
	recordConfirm
	recordStart
	recordStable
	recordVote
	recordBody
)

// EncodeRecord spells a record of this package.
func EncodeRecord(record bft.Record) []byte {
	w := &bft.Writer{}
	switch r := record.(type) {
	case *ViewRecord:
		w.Uint(recordView)
		w.Uint(r.Epoch)
		w.Uint(r.View)
		w.Bool(r.Active)
	case *AcceptRecord:
		w.Bytes = make([]byte, 0, 160+r.Entry.Size()+8*len(r.Entry.Txs))
		w.Uint(recordAccept)
		w.Uint(r.Epoch)
		w.Uint(r.Seq)
		w.Digest(r.History)
		w.Entry(r.Entry)
		w.Chunk(r.Order)
	case *CertificateRecord:
		w.Uint(recordCertificate)
		r.Certificate.write(w)
	case *ConfirmRecord:
		w.Uint(recordConfirm)
		w.Uint(r.Epoch)
		w.Uint(r.View)
		r.Stable.write(w)
		writeDigests(w, r.Digests)
		w.Uint(uint64(len(r.Entries)))
		for _, e := range r.Entries {
			w.Entry(e)
		}
	case *StartRecord:
		w.Uint(recordStart)
		r.Certificate.write(w)
	case *StableRecord:
		w.Uint(recordStable)
		r.Stable.write(w)
	case *VoteRecord:
		w.Uint(recordVote)
		w.Checkpoint(r.Checkpoint)
		w.Digest(r.History)
	case *BodyRecord:
		w.Uint(recordBody)
		w.Entry(r.Entry)
	default:
		panic(fmt.Sprintf("zyzzyva: no record: %T", record))
	}
	return w.Bytes
}

// DecodeRecord reads a record. Its chunks are parts of raw.
func DecodeRecord(raw []byte) (bft.Record, error) {
	r := bft.NewReader(raw)
	var record bft.Record
	whole := true
	switch kind := r.Uint(); kind {
	case recordView:
		record = &ViewRecord{Epoch: r.Uint(), View: r.Uint(), Active: r.Bool()}
	case recordAccept:
		accept := &AcceptRecord{Epoch: r.Uint(), Seq: r.Uint(), History: r.Digest(), Entry: r.Entry(), Order: r.Chunk()}
		record, whole = accept, accept.Entry != nil
	case recordCertificate:
		record = &CertificateRecord{Certificate: readCertificate(r)}
	case recordConfirm:
		confirm := &ConfirmRecord{Epoch: r.Uint(), View: r.Uint(), Stable: readStable(r), Digests: readDigests(r)}
		confirm.Entries = bft.List(r, leastEntry, len(confirm.Digests), (*bft.Reader).Entry)
		record, whole = confirm, len(confirm.Entries) == len(confirm.Digests)
	case recordStart:
		record = &StartRecord{Certificate: readCertificate(r)}
	case recordStable:
		record = &StableRecord{Stable: readStable(r)}
	case recordVote:
		record = &VoteRecord{Checkpoint: r.Checkpoint(), History: r.Digest()}
	case recordBody:
		body := &BodyRecord{Entry: r.Entry()}
		record, whole = body, body.Entry != nil
	default:
		return nil, fmt.Errorf("%w: record of kind %d", bft.ErrEncoding, kind)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if !whole {
		return nil, fmt.Errorf("%w: a record without its entry", bft.ErrEncoding)
	}
	return record, nil
}
