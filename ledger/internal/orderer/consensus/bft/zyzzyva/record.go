package zyzzyva

import (
	"fmt"

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

// StartRecord: the view has begun as it was confirmed. Entries up to Final were known to be final: those of them that come after
// the beginning stay in the history.
type StartRecord struct {
	Certificate Certificate
	Final       uint64
}

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
		w.Uint(r.Final)
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
		record = &StartRecord{Certificate: readCertificate(r), Final: r.Uint()}
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
