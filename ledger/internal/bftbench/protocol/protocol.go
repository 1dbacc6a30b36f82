// Package protocol is what the benchmark and its simulator need to know of each protocol whose cores they run.
package protocol

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// Protocol is one.
type Protocol struct {
	// New starts a replica without records. The state begins empty.
	New func(run plan.Run, id bft.ID, oracle bft.Oracle) bft.Core
	// Alone is whether the first replica orders without the others.
	Alone  bool
	Encode func(bft.Message) []byte
	Decode func([]byte) (bft.Message, error)
	// Proposed are the batches that a message proposes to this replica; none: it is no proposal.
	Proposed func(bft.Message) [][]byte
	// Signed reports whether a message carries its sender's own proof; links prove the others.
	Signed func(bft.Message) bool
	// Accepts is how many equal replies tell a client that its transaction is ordered.
	Accepts func(bft.Group) int
	// Certify makes of a quorum's answers what a client sends to replicas when it has waited for the others in vain; nil: a
	// client has no such way. A quorum of Certified messages then tells it that its transaction is ordered.
	Certify   func(g bft.Group, answers map[bft.ID]bft.Message) bft.Message
	Certified func(bft.Message) bool
	// Place is the sequence number that an answer or a Certified message is about.
	Place func(bft.Message) uint64
}

var protocols = map[string]Protocol{
	"zyzzyva": {
		New: func(run plan.Run, id bft.ID, oracle bft.Oracle) bft.Core {
			return zyzzyva.New(configOfZyzzyva(run, id), oracle, bft.State{}, nil)
		},
		Encode: zyzzyva.Encode, Decode: zyzzyva.Decode, Certify: certify,
		Accepts: func(g bft.Group) int { return len(g.Members) },
		Proposed: func(m bft.Message) [][]byte {
			if o, is := m.(*zyzzyva.Order); is {
				return o.Entry.Txs
			}
			return nil
		},
		Signed: func(m bft.Message) bool {
			switch m.(type) {
			case *zyzzyva.Order, *zyzzyva.Response, *zyzzyva.Commit, *zyzzyva.CheckpointVote, *zyzzyva.ViewChange, *zyzzyva.NewView,
				*zyzzyva.Confirm, *zyzzyva.Start, *zyzzyva.Proof, *zyzzyva.Misbehaviour:
				return true
			}
			return false
		},
		Certified: func(m bft.Message) bool {
			_, is := m.(*zyzzyva.LocalCommit)
			return is
		},
		Place: func(m bft.Message) uint64 {
			switch m := m.(type) {
			case *zyzzyva.Response:
				return m.Seq
			case *zyzzyva.LocalCommit:
				return m.Seq
			}
			return 0
		},
	},
	"none": {
		New:      func(run plan.Run, _ bft.ID, _ bft.Oracle) bft.Core { return &nothing{group: run.Group()} },
		Alone:    true,
		Encode:   func(bft.Message) []byte { return nil },
		Decode:   func([]byte) (bft.Message, error) { return nil, errSilent },
		Proposed: func(bft.Message) [][]byte { return nil },
		Signed:   func(bft.Message) bool { return true },
		Accepts:  func(bft.Group) int { return 1 },
	},
	"pbft": {
		New: func(run plan.Run, id bft.ID, oracle bft.Oracle) bft.Core {
			return pbft.New(configOfPBFT(run, id), oracle, bft.State{}, nil)
		},
		Encode: pbft.Encode, Decode: pbft.Decode, Accepts: bft.Group.Weak,
		Proposed: func(m bft.Message) [][]byte {
			if p, is := m.(*pbft.PrePrepare); is {
				return p.Entry.Txs
			}
			return nil
		},
		Signed: func(m bft.Message) bool {
			switch m.(type) {
			case *pbft.PrePrepare, *pbft.Prepare, *pbft.CheckpointVote, *pbft.ViewChange, *pbft.NewView, *pbft.Proof:
				return true
			}
			return false
		},
	},
}

// Find is the protocol of a run.
func Find(run plan.Run) (Protocol, error) {
	p, has := protocols[run.Protocol]
	usual := plan.Default().Overlap
	switch {
	case !has:
		return p, fmt.Errorf("there is no protocol %q: %v are accepted", run.Protocol, Names())
	case p.Certify != nil && run.Overlap != usual:
		return p, fmt.Errorf("overlap %d: %d, the default, is accepted of %s, whose clients know which batches are under way, and not its primary", run.Overlap, usual, run.Protocol)
	}
	return p, nil
}

// Names are all of them.
func Names() []string { return slices.Sorted(maps.Keys(protocols)) }

// A transaction of the core is a whole batch, so that it has one digest.
const (
	batchBytes = 64 << 20
	waiting    = 1 << 20
)

// Views change where a primary keeps still for so long. No run has such a primary: a replica that gets little CPU is none.
const (
	timeout = 30 * time.Second
	resend  = 3 * time.Second
	// settle leaves replicas enough of that time to settle what is final: until then the primary owes it.
	settle = timeout / 4
)

// limits are those of both protocols.
var limits = base.Limits{BatchTxs: 1, BatchBytes: batchBytes, Timeout: timeout, MaxTimeout: 8 * timeout}

func configOfPBFT(run plan.Run, id bft.ID) pbft.Config {
	return pbft.Config{
		ID: id, Domain: "bft-bench", Group: run.Group(),
		Interval: uint64(run.Interval()), Window: uint64(run.Window()), Overlap: uint64(run.Overlap),
		Limits: limits, Pending: waiting, PendingBytes: 1 << 30, Resend: resend,
	}
}

// configOfZyzzyva lets the replicas settle what is final at checkpoints only, unless these take long: clients find out
// before. Entries are not applied until then, so that the window alone bounds how many are under way.
func configOfZyzzyva(run plan.Run, id bft.ID) zyzzyva.Config {
	return zyzzyva.Config{
		ID: id, Domain: "bft-bench", Group: run.Group(),
		Interval: uint64(run.Interval()), Window: uint64(run.Window()),
		Limits: limits, Pending: waiting, PendingBytes: 1 << 30, Settle: settle, Fast: fast, Resend: resend,
	}
}

// fast is how long replicas that settle wait for all.
const fast = 20 * time.Millisecond

func certify(g bft.Group, answers map[bft.ID]bft.Message) bft.Message {
	var c zyzzyva.Certificate
	for _, id := range g.Members {
		if r, is := answers[id].(*zyzzyva.Response); is && len(c.Signatures) < g.Quorum() {
			c.Epoch, c.View, c.Seq, c.History = r.Epoch, r.View, r.Seq, r.History
			c.Signatures = append(c.Signatures, bft.Signature{By: id, Bytes: r.Signature})
		}
	}
	return &zyzzyva.Commit{Certificate: c}
}
