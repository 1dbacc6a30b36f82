// Package replica runs the core of a protocol that tolerates liars as a consenter: one goroutine steps the core, one
// makes its votes durable and sends them, one applies.
package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/wire"
)

var log = ops.Logger("orderer.consensus.bft")

// Protocol is what the package needs to know of one.
type Protocol struct {
	New          func(bft.Oracle, bft.State, []bft.Record) bft.Core
	Encode       func(bft.Message) []byte
	Decode       func([]byte) (bft.Message, error)
	EncodeRecord func(bft.Record) []byte
	DecodeRecord func([]byte) (bft.Record, error)
	// Checkpoint is what a record says of a state, and whether the record ends what came before it.
	Checkpoint func(bft.Record) (cp bft.Checkpoint, stable, is bool)
	// Address names in an answer the transactions that it is for. Nil: clients believe what f+1 orderers say.
	Address func(answer bft.Message, txs ...bft.Digest) bft.Message
	// Hears reports whether a client may send such an encoded message; nil where Address is.
	Hears func([]byte) bool
}

// Bounds of queues.
const (
	queuedInputs = 4096
	// batched is how many inputs the core is given before what follows from them goes to the disk.
	batched = 64
	// compactBytes is the size of the log of votes at which it is begun anew, at the next stable checkpoint.
	compactBytes = 64 << 20
)

// Node is one orderer's part in a channel's consensus.
type Node struct {
	settings consensus.Settings
	host     consensus.Host
	protocol Protocol
	log      *votelog.Log
	records  [][]byte // until Run
	oracle   *oracle
	seals    *seals
	clients  *clients
	hearing  *hearing

	intake     *consensus.Intake
	mail       *mailbox
	outbox     *outbox
	inputs     chan news // of the applier
	disk       *queue[bft.Effects]
	work       *queue[work]
	saturation ops.Saturation // saturation is of the goroutine that steps
	writing    ops.Saturation
	applying   ops.Saturation
	view       atomic.Pointer[bft.View]
	logged     atomic.Int64 // bytes of the log of votes
	compactAt  atomic.Int64 // bytes of it at which it is begun anew
	leastBytes int64        // that compactAt is at least
	compacting atomic.Bool  // that is under way
	leaving    atomic.Bool  // it was removed
	settling   atomic.Int64 // bytes that wait to be settled; at most mostSettling

	// Of the goroutine that steps:
	core     bft.Core
	began    time.Time
	deadline *deadline
	leader   uint64
	said     bft.View // the last one whose leader the log has named
	left     bft.Time // when it was removed; 0: it was not
}

// news is for the goroutine that steps.
type news struct {
	in       bft.Input
	imported []bft.Digest // transactions that others' blocks have brought
}

// work is for the goroutine that applies.
type work struct {
	apply  []bft.Ordered
	fetch  *bft.Fetch
	leader *uint64
}

// Open recovers the votes; Run takes part.
func Open(s consensus.Settings, host consensus.Host, protocol Protocol) (*Node, error) {
	if there, err := votelog.Exists(s.Dir); err != nil {
		return nil, err
	} else if height := host.Height(); !there && s.ID <= s.Founders && height > 1 {
		// One that has become a member later begins with the blocks that it has followed.
		return nil, fmt.Errorf("%s holds no votes, beside a ledger of %d blocks: votes that are forgotten could be cast again", s.Dir, height)
	}
	l, records, err := votelog.Open(s.Dir, votelog.Options{})
	if err != nil {
		return nil, err
	}
	if s.VolatileVotes {
		l.Forget()
		log.Warnf("[channel: %s] VOTES ARE NOT DURABLE (volatile_votes): after a power cut this orderer may vote otherwise than before, and count as one that lies. This is for measurements only.", s.Channel)
	}
	n := &Node{
		settings: s, host: host, protocol: protocol, log: l, records: records,
		intake: consensus.NewIntake(), mail: newMailbox(), outbox: newOutbox(host), inputs: make(chan news, queuedInputs),
		disk: newQueue[bft.Effects](), work: newQueue[work](),
	}
	if n.deadline, err = newDeadline(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	n.CompactAt(compactBytes)
	n.oracle = newOracle(s, host)
	n.seals = newSeals(n)
	n.clients = newClients()
	n.hearing = newHearing(time.Now())
	host.SealBy(n.seals)
	n.view.Store(&bft.View{})
	n.register()
	return n, nil
}

// CompactAt sets at how many bytes the log of votes is begun anew, before Run. It is for tests.
func (n *Node) CompactAt(bytes int64) {
	n.leastBytes = bytes
	n.compactAt.Store(bytes)
}

// Leader implements consensus.Consenter. One that hears nobody knows of none: those who lead may have removed it.
func (n *Node) Leader() uint64 {
	v := n.view.Load()
	if !v.Active || !v.Fetching && n.hearing.deaf(v.Group, n.settings.ID, time.Now(), patience(&n.settings.Bundle().Orderer)) {
		return 0
	}
	return v.Leader
}

// Queued implements consensus.Consenter.
func (n *Node) Queued() (proposals, messages int) { return n.intake.Len(), n.mail.len() }

// Busy implements consensus.Consenter.
func (n *Node) Busy() float64 { return n.saturation.Seconds() }

// Submit implements consensus.Consenter: whoever leads, this orderer brings the transaction to it.
func (n *Node) Submit(p consensus.Proposal) error {
	if n.leaving.Load() {
		return consensus.ErrNotLeader
	}
	return n.intake.Put(p)
}

// Unreachable implements consensus.Consenter. The protocol finds out by itself.
func (n *Node) Unreachable(uint64) {}

// Run implements consensus.Consenter.
func (n *Node) Run(ctx context.Context) error {
	defer func() {
		n.deadline.close()
		_ = n.log.Close() // what it had to say has been said by Append
	}()
	switch err := n.start(ctx); {
	case errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		n.disk.close()
		n.work.close()
	})
	defer stop()
	group.Go(func() error { return n.write(ctx) })
	group.Go(func() error { return n.applyAll(ctx) })
	group.Go(func() error { return n.step(ctx) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// start gives the core its votes, and where the ledger stands.
func (n *Node) start(ctx context.Context) error {
	records := make([]bft.Record, len(n.records))
	for i, raw := range n.records {
		var err error
		if records[i], err = n.protocol.DecodeRecord(raw); err != nil {
			return fmt.Errorf("record %d of %s: %w", i, n.settings.Dir, err)
		}
	}
	n.records = nil
	epoch, err := n.oracle.recall()
	if err != nil {
		return fmt.Errorf("who ordered before: %w", err)
	}
	n.learn(epoch)
	n.seals.skip(n.host.Height())
	if err := n.recallOrdered(ctx); err != nil {
		return err
	}
	state, err := n.standing(records)
	if err != nil {
		return err
	}
	n.core = n.protocol.New(n.oracle, state, records)
	n.began = time.Now()
	return nil
}

// standing is which entry the ledger ends with. A checkpoint that has the same state tells exactly; without one the last
// block's entry is applied again, which the ledger knows how to skip.
func (n *Node) standing(records []bft.Record) (bft.State, error) {
	var state bft.State
	if len(records) == 0 && n.settings.ID > n.settings.Founders {
		return n.joining()
	}
	if at := n.host.Applied(); at.Index > 0 {
		state.Applied = at.Index - 1
	}
	now, err := n.stateOf(n.host.Height())
	if err != nil {
		return state, err
	}
	for _, r := range records {
		if cp, _, is := n.protocol.Checkpoint(r); is && cp.State == now && cp.Seq >= state.Applied {
			state = bft.State{Applied: cp.Seq, Closed: cp.Ends()}
		}
	}
	return state, nil
}

// joining is where a replica begins that later than the founders has become a member: it has followed the others' blocks
// up to the configuration that says so. Beside blocks that came later it has either had votes, which are gone, or could not
// tell that it is a member.
func (n *Node) joining() (bft.State, error) {
	newest := n.host.Height() - 1
	block, err := n.host.Block(newest)
	if err != nil {
		return bft.State{}, err
	}
	if config, _, err := protoutil.OrdererMetadata(block.Metadata); err != nil || config != newest {
		return bft.State{}, errors.Join(err, fmt.Errorf(
			"%s holds no votes, and block %d came after the configuration of block %d: remove this consenter, and add it again",
			n.settings.Dir, newest, config))
	}
	at := n.host.Applied()
	state, err := n.stateOf(n.host.Height())
	members := slices.Sorted(slices.Values(n.host.Members()))
	begin := bft.Checkpoint{Seq: at.Index, State: state, Next: bft.Group{Epoch: at.Index, Members: members}}
	return bft.State{Applied: at.Index, Begin: begin}, err
}

// step gives the core what comes, until ctx ends.
func (n *Node) step(ctx context.Context) error {
	n.take(bft.Tick{})
	n.saturation.Work()
	for {
		if err := n.publish(); err != nil {
			return err
		}
		n.saturation.Wait()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.mail.filled:
			n.saturation.Work()
			n.read()
		case p := <-n.intake.C():
			n.saturation.Work()
			n.submit(p)
		case heard := <-n.inputs:
			n.saturation.Work()
			n.oracle.remember(heard.imported)
			n.take(heard.in)
		case <-n.deadline.far.C:
			n.saturation.Work()
			n.take(bft.Tick{})
		case <-n.deadline.near.C:
			n.saturation.Work()
			n.take(bft.Tick{})
		}
	}
}

// read gives the core what members and clients have sent.
func (n *Node) read() {
	for range batched {
		m, waits := n.mail.take()
		if !waits {
			return
		}
		n.take(m)
	}
}

// take steps the core, and has done what follows.
func (n *Node) take(in bft.Input) bft.Effects {
	e := n.core.Step(time.Since(n.began)+1, in)
	g := n.core.View().Group
	n.oracle.epoch.Store(g.Epoch)
	if g.Index(n.settings.ID) < 0 {
		e.Fetch = nil // who was removed follows blocks, up to the one that makes it a member again
	}
	for _, o := range e.Apply {
		n.oracle.applied(o.Entry)
	}
	for _, r := range e.Refused {
		if errors.Is(r.Reason, bft.ErrOutdated) {
			n.host.Refuse(r.Tx, r.Reason)
		}
	}
	if n.logged.Load() >= n.compactAt.Load() && n.endsOthers(e.Persist) && !n.compacting.Swap(true) {
		// The records of this step are among those that take the place of all.
		e.Persist = append([]bft.Record{replace{}}, n.core.Records()...)
	}
	if len(e.AtOnce) > 0 {
		out := parcels{encode: n.protocol.Encode}
		out.add(e.AtOnce)
		n.send(out)
		wire.LetSend()
	}
	if hasWork(e) {
		n.disk.put(e)
	}
	if e.Deadline != 0 {
		n.deadline.set(n.began.Add(e.Deadline - 1))
	}
	return e
}

// replace stands before records that take the place of all before.
type replace struct{}

// Kind implements bft.Record.
func (replace) Kind() string { return "replace" }

func (n *Node) endsOthers(records []bft.Record) bool {
	for _, r := range records {
		if _, stable, _ := n.protocol.Checkpoint(r); stable {
			return true
		}
	}
	return false
}

// publish tells others in this process where the replica stands.
func (n *Node) publish() error {
	v := n.core.View()
	before := n.view.Swap(&v)
	n.clients.regroup(v.Group)
	leader := n.Leader()
	if leader != 0 && (v.View != n.said.View || v.Group.Epoch != n.said.Group.Epoch) {
		log.Infof("[channel: %s] epoch %d, view %d: %d leads", n.settings.Channel, v.Group.Epoch, v.View, leader)
		n.said = v
	}
	if leader != n.leader {
		n.leader = leader
		n.work.put(work{leader: &leader})
	}
	if v.Suspicions != before.Suspicions {
		log.Warnf("[channel: %s] the leader of the view before %d is given up", n.settings.Channel, v.View)
	}
	if v.Group.Index(n.settings.ID) < 0 {
		// It was a member when it was opened: its own ledger says so. Its votes may know since an earlier run that it is none.
		return n.takeLeave(&v, time.Since(n.began)+1)
	}
	return nil
}
