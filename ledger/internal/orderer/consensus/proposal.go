package consensus

import (
	"golang.org/x/sync/semaphore"

	"github.com/qioi/qioi/ledger/internal/ops"
)

// Proposal is one transaction on its way into the order.
type Proposal struct {
	Tx     []byte
	Config bool // Config is whether Tx is a configuration
	// Sequence is that of the configuration that the orderer has checked Tx under.
	Sequence uint64
	// Settle is called at most once. An error says why the transaction is not in the order, or may not be. Without an
	// error it is there: an external order says so, and one that was given again what it has ordered before. Otherwise it
	// is seen by the transaction's being applied.
	Settle func(error)
}

// Bounds of an Intake.
const (
	queuedProposals = 4096
	queuedBytes     = 64 << 20 // thousands of the largest transactions are more than a host's memory
)

// Intake is a queue of proposals, bounded in number and in bytes. Any goroutine may put; one takes.
type Intake struct {
	line  *Line[Proposal]
	bytes *semaphore.Weighted
}

// NewIntake makes an empty queue.
func NewIntake() *Intake {
	return &Intake{line: NewLine[Proposal](queuedProposals), bytes: semaphore.NewWeighted(queuedBytes)}
}

// Put queues a proposal, or says ErrOverload.
func (q *Intake) Put(p Proposal) error {
	if !q.bytes.TryAcquire(weight(p)) {
		return ErrOverload
	}
	if !q.line.Put(p) {
		q.bytes.Release(weight(p))
		return ErrOverload
	}
	return nil
}

// C gives the proposals, in order. Each that is received from it is told to Taken.
func (q *Intake) C() <-chan Proposal { return q.line.C() }

// Next takes the next proposal if one waits.
func (q *Intake) Next() (p Proposal, waits bool) {
	select {
	case p = <-q.line.C():
		q.Taken(p)
		return p, true
	default:
		return p, false
	}
}

// Taken is for a proposal that waits no longer.
func (q *Intake) Taken(p Proposal) {
	q.bytes.Release(weight(p))
	q.line.Taken()
}

// Stands tells what the queue has counted. Any goroutine may ask.
func (q *Intake) Stands() ops.Stood { return q.line.Stands() }

// Len is how many proposals wait.
func (q *Intake) Len() int { return q.line.Len() }

// weight is what a proposal takes of the bound. One that is larger takes all of it.
func weight(p Proposal) int64 { return int64(min(len(p.Tx), queuedBytes)) }
