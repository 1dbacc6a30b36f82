// Package pbft is Practical Byzantine Fault Tolerance (Castro and Liskov, OSDI 1999, with
// signatures) as a pure core: pre-prepare, prepare, commit over a window of overlapping
// instances, checkpoints, view changes, and epochs that configuration entries end.
package pbft

import (
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/suspect"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/vouch"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/pace"
)

// Config is how a replica takes part. All replicas of a channel have the same Domain, Group,
// Interval and Window.
type Config struct {
	ID     bft.ID
	Domain string    // what signatures are for: the channel's name
	Group  bft.Group // of the channel's first epoch

	Interval uint64 // entries from one checkpoint to the next
	Window   uint64 // entries beyond the stable checkpoint that may be under way: Interval times two or more
	Overlap  uint64 // entries that a leader has under way at once; what arrives meanwhile makes the next larger

	// ProposeAtOnce has a leader's proposal leave before it is durable, so that all disks are at work together. The leader's
	// vote, which it must not forget, follows by itself. Entries that Pace spaces have the vote in them all the same. All
	// replicas have the same here too.
	ProposeAtOnce bool

	Pace     bft.Time // between two entries of a leader while transactions come in crowds; 0: they are not spaced
	MostPace bft.Time // that Pace grows to where entries take long

	// MarkWait is for how long a mark waits for a transaction in whose entry it goes along: an entry of its own costs as much
	// as any. 10 ms is more than a client that sends one after the other takes; 0: it does not wait.
	MarkWait bft.Time

	base.Limits

	// Pending is how many transactions may wait per replica that has brought them, PendingBytes how large they may be.
	Pending      int
	PendingBytes int

	// SpareWait is how long a spare leaves it to the others to decide, at most (see spares); 0: all vote at once. It
	// must be well below Timeout, of which a twentieth is suggested. Replicas need not have the same.
	SpareWait bft.Time

	Resend bft.Time // between two messages of one's status while something is missing

	// InForce is the Config by the channel's configuration that is in force here. What may differ is how transactions are
	// batched, paced and waited for. It is asked once an epoch's configuration is in force, which on a slow disk is later than
	// elsewhere. Until then a replica has the former limits, and may refuse a larger entry; then it has that sent again.
	// nil: nothing changes.
	InForce func() Config
}

// Core is one replica. It is made by New, and driven by Step alone.
type Core struct {
	base.Replica[bft.Certificate]
	cfg Config

	base      uint64 // sequence numbers up to it are settled by the new view; proposals begin after it
	next      uint64 // the next sequence number that this leader gives
	pacer     pace.Pacer
	proposeAt bft.Time // when what waits may be proposed; 0: nothing waits for that
	closing   uint64   // sequence number of a configuration that is accepted in this view; 0: none
	logged    uint64   // sequence number of the newest state whose fetch has begun, with all votes before that durable

	slots    map[uint64]*slot
	foreseen map[bft.Digest]bool // the transactions of entries up to Foreseen that are not applied

	spares   spares
	votes    *vouch.Votes[bft.Checkpoint]
	own      []bft.Checkpoint // that this replica has vouched for, above Stable, ascending
	changes  []*ViewChange    // by member: the latest
	verdicts []verdict        // of what it holds prepared
	askAt    []bft.Time       // when it may be asked for what its change names and is not here
	newView  *NewView         // of the view that is active, where we have it

	appliedThen uint64 // Applied when the status was due last
}

// New starts a replica that has kept records.
func New(cfg Config, oracle bft.Oracle, state bft.State, records []bft.Record) *Core {
	c := &Core{
		Replica: base.Replica[bft.Certificate]{
			Protocol: "pbft", ID: cfg.ID, Oracle: oracle, Group: cfg.Group, Views: base.Views{Active: true},
			Pending:  pool.New(pool.Limits{ID: cfg.ID, BatchTxs: cfg.BatchTxs, BatchBytes: cfg.BatchBytes, Txs: cfg.Pending, Bytes: cfg.PendingBytes}, oracle),
			Progress: base.Progress[bft.Certificate]{Applied: state.Applied, Here: state.Applied, Closed: state.Closed, Last: state.Applied},
			Help:     base.Help{Ration: bft.Ration{Every: cfg.Resend, Bytes: bft.Rationed}},
		},
		cfg: cfg, slots: map[uint64]*slot{}, foreseen: map[bft.Digest]bool{},
	}
	c.Renew = c.renew
	c.Stable.Next, c.Start.Next = cfg.Group, cfg.Group
	c.pacer = pace.Pacer{Interval: cfg.Pace, Most: cfg.MostPace}
	c.beginSparing(state.Applied)
	c.resetEpoch()
	if len(records) == 0 && state.Begin.Seq > 0 {
		c.Stable = bft.Certificate{Checkpoint: state.Begin}
		c.enter()
		c.First = []bft.Record{&StableRecord{Certificate: c.Stable}, &ViewRecord{Epoch: c.Group.Epoch, Active: true, Base: c.base}}
	}
	c.restore(records)
	return c
}

// resetEpoch forgets what belongs to an epoch's members.
func (c *Core) resetEpoch() {
	n := len(c.Group.Members)
	c.votes = vouch.New[bft.Checkpoint](c.Group)
	c.changes, c.verdicts, c.askAt = make([]*ViewChange, n), make([]verdict, n), make([]bft.Time, n)
	c.newView = nil
	clear(c.foreseen)
	c.Suspect = suspect.Timer{
		First: c.cfg.Timeout, Most: c.cfg.MaxTimeout, Silence: bft.Silence(c.cfg.Resend),
	}
	c.pacer.Forget()
}

// renew takes over what the configuration in force says of how to take part.
func (c *Core) renew() base.Limits {
	if c.cfg.InForce != nil {
		c.cfg = c.cfg.InForce()
	}
	c.pacer.Interval, c.pacer.Most = c.cfg.Pace, c.cfg.MostPace
	return c.cfg.Limits
}

// clock is now as the pacer knows time.
func (c *Core) clock() time.Time { return time.Time{}.Add(c.Now) }

// Step implements bft.Core.
func (c *Core) Step(now bft.Time, in bft.Input) bft.Effects {
	c.BeginStep(now)
	switch in := in.(type) {
	case bft.Submit:
		c.submit(in.Tx)
	case bft.Received:
		c.receive(in.From, in.Message)
	case bft.Synced:
		c.synced(in)
	case bft.Logged:
		c.logged = max(c.logged, in.Seq)
	case bft.Fetched:
		c.fetched(in)
	case bft.Tick:
	}
	c.watchSpared()
	c.applyDecided()
	c.propose()
	c.watch()
	c.pruneLate()
	return c.EndStep(c.lateAt(), c.proposeAt)
}

// View implements bft.Core.
func (c *Core) View() bft.View { return c.ViewOf(len(c.slots)) }

func (c *Core) receive(from bft.ID, m bft.Message) {
	if from == c.Leader() {
		c.Suspect.Heard(c.Now)
	}
	// Those who left the group, or are not in it yet, may ask and bring proofs; votes are the members'.
	switch m := m.(type) {
	case *Status:
		c.onStatus(from, m)
		return
	case *Proof:
		c.onProof(m)
		return
	}
	if c.Group.Index(from) < 0 || from == c.ID {
		return
	}
	switch m := m.(type) {
	case *bft.Request:
		c.onRequest(from, m)
	case *PrePrepare:
		c.onPrePrepare(from, m)
	case *Prepare:
		c.onPrepare(from, m)
	case *Commit:
		c.onCommit(from, m)
	case *CheckpointVote:
		c.onCheckpointVote(from, m)
	case *ViewChange:
		c.onViewChange(m)
	case *NewView:
		c.onNewView(m)
	case *bft.Want:
		c.onWant(from, m)
	case *bft.Have:
		c.onHave(m)
	}
}

// atOnce tells all what promises nothing.
func (c *Core) atOnce(m bft.Message) {
	for _, id := range c.Group.Members {
		if id != c.ID {
			c.Out.AtOnce = append(c.Out.AtOnce, bft.Outgoing{To: id, Message: m})
		}
	}
}
