// Package zyzzyva is Zyzzyva (Kotla, Alvisi, Dahlin, Clement, Wong, SOSP 2007) as a pure core, and its client as another.
// Replicas execute in the leader's order before it is decided, and it is the client who finds out: by the same history at
// all replicas, or by a certificate that a quorum holds.
//
// The view change as first published is unsafe (Abraham, Gueta, Malkhi, Alvisi, Kotla, Martin, "Revisiting Fast Practical
// Byzantine Fault Tolerance", 2017). This one follows the principle of the same authors' repair ("Thelma, Velma, and
// Zelma", 2018): a view begins with what may have been decided in the highest view before it, whether by a certificate or
// by all replicas. See choices.
package zyzzyva

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/suspect"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/vouch"
)

// Config is how a replica takes part. All replicas of a channel have the same Domain, Group, Interval and Window.
type Config struct {
	ID     bft.ID
	Domain string    // what signatures are for: the channel's name
	Group  bft.Group // of the channel's first epoch

	Interval uint64 // entries from one checkpoint to the next
	Window   uint64 // entries beyond the stable checkpoint that may be under way: Interval times two or more
	Overlap  uint64 // entries that a leader has under way beyond the applied ones; 0: as many as the window has

	base.Limits
	BatchWait bft.Time // that a transaction may wait for others to fill its entry

	// Pending is how many transactions may wait per replica that has brought them, PendingBytes how large they may be.
	Pending      int
	PendingBytes int

	// Settle is how long an entry may be executed before the replicas settle among themselves that it is final. They do
	// so at each checkpoint anyway. 0: at once, for each entry.
	Settle bft.Time
	// Fast is how long a replica that settles waits for all the others before it goes on with a quorum's certificate.
	Fast bft.Time

	Resend bft.Time // between two messages of one's status while something is missing

	// InForce is the Config by the channel's configuration that is in force here. What may differ is how transactions are
	// batched and waited for. It is asked once an epoch's configuration is in force, which on a slow disk is later than
	// elsewhere. Until then a replica has the former limits, and may refuse a larger entry; then it has that sent again.
	// nil: nothing changes.
	InForce func() Config
}

// Core is one replica. It is made by New, and driven by Step alone.
type Core struct {
	base.Replica[Stable]
	cfg Config

	base    uint64 // sequence numbers up to it are the view's beginning; the leader orders after it
	closing uint64 // sequence number of a configuration that is accepted; 0: none
	logged  uint64 // sequence number of the newest state whose fetch has begun, with all records before that durable
	damage  error  // of the records that the replica was started with; nil: there is none

	slots          map[uint64]*slot      // the history from Floor to Last
	early          map[uint64]*Order     // of this view, after Last
	tip            bft.Digest            // the history after Last
	executed       uint64                // sequence number up to which Ahead or Apply has told what is executed
	executedBefore uint64                // executed at the step's beginning, less what this step takes back
	ran            map[uint64]bft.Digest // the history of what is executed ahead
	places         map[bft.Digest]uint64 // where in the history a transaction is, until it is applied
	bodies         map[bft.Digest]*bft.Entry

	rounds   map[uint64]*round // where replicas settle, by sequence number
	locals   []LocalCommit     // by member: the latest
	cert     Certificate       // of the latest view
	final    uint64            // entries up to it are decided
	seen     uint64            // entries up to it this replica has seen decided, in this view or one before
	certAt   bft.Time          // when to go on with a certificate; 0: nothing waits
	settleAt bft.Time          // when this leader has the others settle; 0: nothing waits
	batchAt  bft.Time          // when this leader makes an entry of what it has; 0: nothing waits

	told []told // by member: what it says is final
	walk *walk  // to what others say is final; nil: under way to nothing

	votes    *vouch.Votes[vouched]
	own      []vouched     // what this replica has vouched for, above Stable, ascending
	accusers []bool        // by member, of this view
	changes  []*ViewChange // by member: the latest
	newView  *NewView      // of this view, where we have it
	planned  *plan         // what it begins with
	askAt    bft.Time      // when it may be asked for what is missing of that
	begun    *Start        // how it has begun, for those who have missed it
	confirms []vote        // by member, of this view
}

// New starts a replica that has kept records.
func New(cfg Config, oracle bft.Oracle, state bft.State, records []bft.Record) *Core {
	c := &Core{
		Replica: base.Replica[Stable]{
			Protocol: "zyzzyva", ID: cfg.ID, Oracle: oracle, Group: cfg.Group, Views: base.Views{Active: true},
			Pending:  pool.New(pool.Limits{ID: cfg.ID, BatchTxs: cfg.BatchTxs, BatchBytes: cfg.BatchBytes, Txs: cfg.Pending, Bytes: cfg.PendingBytes}, oracle),
			Progress: base.Progress[Stable]{Applied: state.Applied, Here: state.Applied, Closed: state.Closed},
			Help:     base.Help{Ration: bft.Ration{Every: cfg.Resend, Bytes: bft.Rationed}},
		},
		cfg:   cfg,
		slots: map[uint64]*slot{}, early: map[uint64]*Order{}, ran: map[uint64]bft.Digest{}, places: map[bft.Digest]uint64{},
		bodies: map[bft.Digest]*bft.Entry{}, rounds: map[uint64]*round{},
		final: state.Applied, executed: state.Applied,
	}
	c.Renew = c.renew
	c.Stable.Next, c.Start.Next = cfg.Group, cfg.Group
	c.tip = Beginning(c.Group.Epoch)
	c.anchor(0, c.tip)
	c.resetEpoch()
	if len(records) == 0 && state.Begin.Seq > 0 {
		c.Stable = Stable{Checkpoint: state.Begin}
		c.enter()
		c.First = []bft.Record{&StableRecord{Stable: c.Stable}, &ViewRecord{Epoch: c.Group.Epoch, Active: true}}
	}
	c.restore(records)
	return c
}

// resetEpoch forgets what belongs to an epoch's members.
func (c *Core) resetEpoch() {
	n := len(c.Group.Members)
	c.votes, c.changes, c.locals, c.told = vouch.New[vouched](c.Group), make([]*ViewChange, n), make([]LocalCommit, n), make([]told, n)
	c.walk = nil
	c.accusers, c.confirms = make([]bool, n), make([]vote, n)
	c.newView, c.planned, c.begun = nil, nil, nil
	c.Suspect = suspect.Timer{
		First: c.cfg.Timeout, Most: c.cfg.MaxTimeout, Silence: bft.Silence(c.cfg.Resend),
	}
	c.cert = Certificate{Epoch: c.Group.Epoch, Seq: c.Start.Seq, History: Beginning(c.Group.Epoch), Start: true}
}

// renew takes over what the configuration in force says of how to take part.
func (c *Core) renew() base.Limits {
	if c.cfg.InForce != nil {
		c.cfg = c.cfg.InForce()
	}
	return c.cfg.Limits
}

// Step implements bft.Core.
func (c *Core) Step(now bft.Time, in bft.Input) bft.Effects {
	if c.damage != nil {
		return bft.Effects{Fault: c.damage}
	}
	c.BeginStep(now)
	c.executedBefore = c.executed
	switch in := in.(type) {
	case bft.Submit:
		c.submit(in.Tx)
	case bft.Received:
		c.receive(in.From, in.Message)
	case bft.Synced:
		c.synced(in)
	case bft.Logged:
		c.logged = max(c.logged, in.Seq)
		c.confirm()
		c.advance()
	case bft.Fetched:
		c.fetched(in)
	case bft.Tick:
	}
	c.propose()
	c.runAhead()
	c.applyFinal()
	c.watch()
	return c.EndStep(c.certAt, c.settleAt, c.batchAt)
}

// View implements bft.Core.
func (c *Core) View() bft.View {
	return c.ViewOf(len(c.slots) + len(c.early) + len(c.rounds) + len(c.bodies))
}

func (c *Core) receive(from bft.ID, m bft.Message) {
	if from == c.Leader() {
		c.Suspect.Heard(c.Now)
	}
	// Those who left the group, or are not in it yet, may ask and bring proofs; so may clients. Votes are the members'.
	switch m := m.(type) {
	case *Status:
		c.onStatus(from, m)
		return
	case *Proof:
		c.onProof(m)
		return
	case *Commit:
		c.onCommit(from, m)
		return
	case *Misbehaviour:
		c.onMisbehaviour(m)
		return
	case *bft.Request:
		c.onRequest(from, m)
		return
	}
	if c.Group.Index(from) < 0 || from == c.ID {
		return
	}
	switch m := m.(type) {
	case *Order:
		c.onOrder(from, m)
	case *Response:
		c.onResponse(from, m)
	case *LocalCommit:
		c.onLocalCommit(from, m)
	case *Accuse:
		c.onAccuse(from, m)
	case *CheckpointVote:
		c.onCheckpointVote(from, m)
	case *ViewChange:
		c.onViewChange(m)
	case *NewView:
		c.onNewView(m)
	case *Confirm:
		c.onConfirm(from, m)
	case *Start:
		c.onStart(m)
	case *Ask:
		c.onAsk(from, m)
	case *Tell:
		c.onTell(from, m)
	case *bft.Want:
		c.onWant(from, m)
	case *bft.Have:
		c.onHave(m)
	}
}
