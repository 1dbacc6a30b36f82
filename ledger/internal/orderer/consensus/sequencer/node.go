// Package sequencer makes an orderer a facade of a sequencer (package internal/sequencer). It hands transactions to the
// sequencer, reads the log back, and makes blocks of it. Facades keep nothing that the log has not: they do not know of
// each other, and none leads. A block whose time is up ends by a blob too, so that all cut alike.
//
// The number of a blob is its index in the log. A restarted facade reads on from where its last block begins.
package sequencer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var log = ops.Logger("orderer.consensus.sequencer")

var (
	// ErrAway is returned while the sequencer does not answer, or its log is not read to its end yet.
	ErrAway = errors.New("the sequencer is away")
	// ErrLost ends a facade whose sequencer no longer has what was read from it.
	ErrLost = errors.New("the sequencer's log is another one than before")

	errUnanswered = errors.New("no answer of the sequencer: the transaction may or may not get ordered")
)

const (
	// retryPause is between two tries to reach the sequencer.
	retryPause = 50 * time.Millisecond
	// syncBytes is how much a restart may have to read again.
	syncBytes = 16 << 20
)

// Node is one facade's part in a channel.
type Node struct {
	consensus.Apart
	channel   string
	conn      *grpc.ClientConn
	sequencer sequencerpb.SequencerClient
	host      consensus.Host
	intake    *consensus.Intake // intake has marshalled entries in place of transactions
	connected atomic.Bool
	// open guards what is between connected and intake: nothing comes in after a connection's end has emptied it.
	open sync.RWMutex

	asked      consensus.Tally     // asked counts what was sent to the sequencer and has no answer
	askedBytes *semaphore.Weighted // askedBytes bounds it in bytes
	read       consensus.Tally     // read counts blobs that were read, until they are applied
	saturation ops.Saturation      // saturation is of the goroutine that applies

	tell   func(level ops.Level, format string, args ...any) // tell writes to the log
	silent bool                                              // silent is whether it is told that the sequencer does not answer
	told   string                                            // told is what keeps transactions out, as it was told

	// Of the goroutine that applies:
	next    uint64           // number of the next blob
	reached uint64           // number of the first blob that was in no sealed block before the start, also where damage took blocks
	hashed  *sequencer.Chain // before the next blob; nil: not known yet
	block   *consensus.BlockTimer
	syncer  *consensus.Syncer
}

func newNode(channel string, conn *grpc.ClientConn, cutInterval func() time.Duration, host consensus.Host) *Node {
	n := &Node{
		channel: channel, conn: conn, sequencer: sequencerpb.NewSequencerClient(conn), host: host, intake: consensus.NewIntake(),
		askedBytes: semaphore.NewWeighted(unansweredBytes), next: number(host.From()), reached: number(host.Reached()),
		block: consensus.NewBlockTimer(cutInterval), syncer: consensus.NewSyncer(syncBytes, host.Sync),
		tell: func(level ops.Level, format string, args ...any) { log.Log(1, level, format, args...) },
	}
	if n.next == 1 {
		n.hashed = new(sequencer.Chain)
	}
	return n
}

// number is that of the first blob after a place.
func number(at chain.Applied) uint64 { return max(1, at.Index) }

// Queued implements consensus.Consenter.
func (n *Node) Queued() (proposals, messages int) { return n.intake.Len(), n.read.Stands().Length }

// Busy implements consensus.Consenter.
func (n *Node) Busy() float64 { return n.saturation.Seconds() }

// Submit implements consensus.Consenter. It errs at once while the sequencer is away.
func (n *Node) Submit(p consensus.Proposal) error {
	return n.put(&streampb.LogEntry{Txs: [][]byte{p.Tx}, Checked: p.Sequence + 1}, p.Settle)
}

func (n *Node) put(entry *streampb.LogEntry, settle func(error)) error {
	blob, err := proto.Marshal(entry)
	if err != nil {
		return err
	}
	n.open.RLock()
	defer n.open.RUnlock()
	if !n.connected.Load() {
		return ErrAway
	}
	return n.intake.Put(consensus.Proposal{Tx: blob, Settle: settle})
}

// Run implements consensus.Consenter. It fails when the sequencer's log is another one, or the ledger does.
func (n *Node) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, n.conn.Close()) }()
	defer n.block.Stop()
	defer func() { err = errors.Join(err, n.syncer.Close()) }()
	for {
		err := n.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case fatal(err):
			return fmt.Errorf("channel %s: %w", n.channel, err)
		case err.Error() != n.told:
			n.told = err.Error()
			n.tell(ops.Warn, "[channel: %s] the sequencer is away, trying again: %s", n.channel, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}

// session lasts as long as the connection does; it always errs.
func (n *Node) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last, err := n.last(ctx)
	if err != nil {
		return away{err}
	}
	if last.Number+1 < max(n.next, n.reached) {
		return fmt.Errorf("%w: it ends at number %d, %d is in blocks", ErrLost, last.Number, max(n.next, n.reached)-1)
	}
	log.Infof("[channel: %s] Reading the sequencer's log from number %d on, which ends at %d", n.channel, n.next, last.Number)
	defer n.shut()
	var broken error
	group, ctx := errgroup.WithContext(ctx)
	get, err := n.sequencer.Get(ctx, &sequencerpb.GetRequest{Channel: n.channel, Number: n.next})
	if err != nil {
		return away{err}
	}
	fetched := make(chan *sequencerpb.Blobs, 4)
	group.Go(func() error {
		for {
			blobs, err := get.Recv()
			if status.Code(err) == codes.OutOfRange {
				return fmt.Errorf("%w: %w", ErrLost, err)
			}
			if err != nil {
				return away{err}
			}
			n.read.Put(len(blobs.Blobs))
			select {
			case fetched <- blobs:
			case <-ctx.Done():
				n.read.Begin(len(blobs.Blobs))
				return away{ctx.Err()}
			}
		}
	})
	group.Go(func() error { return n.order(ctx) })
	group.Go(func() error {
		broken = n.apply(ctx, fetched, last.Number)
		return broken
	})
	err = group.Wait()
	close(fetched)
	for blobs := range fetched {
		n.read.Begin(len(blobs.Blobs))
	}
	if fatal(broken) {
		return broken // the connection may have ended first
	}
	return err
}

// shut refuses what comes in, and what has come in but has not left.
func (n *Node) shut() {
	n.open.Lock()
	n.connected.Store(false)
	n.open.Unlock()
	for {
		p, waits := n.intake.Next()
		if !waits {
			return
		}
		p.Settle(ErrAway)
	}
}

// apply takes what is read, until the connection ends. Once it has read up to end transactions are let in.
func (n *Node) apply(ctx context.Context, fetched <-chan *sequencerpb.Blobs, end uint64) error {
	if err := n.admit(ctx, end); err != nil {
		return err
	}
	for {
		var work func() error
		select {
		case <-ctx.Done():
			return away{ctx.Err()}
		case blobs := <-fetched:
			work = func() error {
				n.read.Begin(len(blobs.Blobs))
				if err := n.take(blobs); err != nil {
					return err
				}
				return n.admit(ctx, end)
			}
		case <-n.block.C():
			work = func() error { n.proposeCut(); return nil }
		case err := <-n.syncer.Done():
			work = func() error { return n.syncer.End(err) }
		}
		n.saturation.Work()
		if err := work(); err != nil {
			return err
		}
		n.saturation.Wait()
	}
}

// admit lets transactions in, once the log is read to where it ended. It errs where what this orderer had is not in it.
func (n *Node) admit(ctx context.Context, end uint64) error {
	if n.next <= end || n.connected.Load() {
		return nil
	}
	if missing := n.host.Missing(); missing > 0 {
		return fmt.Errorf("%w: it ends before %d transactions that this orderer had", ErrLost, missing)
	}
	n.open.Lock()
	defer n.open.Unlock()
	if ctx.Err() == nil {
		n.connected.Store(true)
		n.told = ""
		log.Infof("[channel: %s] The sequencer's log is read up to number %d", n.channel, n.next-1)
	}
	return nil
}

// take applies blobs that were read.
func (n *Node) take(m *sequencerpb.Blobs) error {
	if m.First != n.next {
		return fmt.Errorf("%w: number %d where %d comes next", ErrLost, m.First, n.next)
	}
	entries := make([]*streampb.LogEntry, 0, len(m.Blobs))
	for _, blob := range m.Blobs {
		if n.hashed != nil {
			*n.hashed = n.hashed.After(blob)
		}
		n.next++
		n.syncer.Applied(len(blob))
		entries = append(entries, n.entry(blob))
	}
	if err := n.compare(m.Chain); err != nil {
		return err
	}
	if err := n.host.Apply(m.First, entries...); err != nil {
		return err
	}
	n.block.Watch(n.host.Open())
	if n.syncer.Due() {
		n.syncer.Begin()
	}
	return nil
}

// compare holds the sequencer's chain against that of what was read. The first one is believed: what the ledger has is
// compared with it blob by blob.
func (n *Node) compare(told []byte) error {
	if len(told) != len(sequencer.Chain{}) || n.hashed != nil && !bytes.Equal(told, n.hashed[:]) {
		return fmt.Errorf("%w: the chain of hashes breaks before number %d", ErrLost, n.next)
	}
	if n.hashed == nil {
		n.hashed = new(sequencer.Chain)
		copy(n.hashed[:], told)
	}
	return nil
}

// entry is what a blob means. One that is not ours is an empty entry, on every orderer alike.
func (n *Node) entry(blob []byte) *streampb.LogEntry {
	var entry streampb.LogEntry
	err := proto.Unmarshal(blob, &entry)
	if err != nil || len(entry.Txs) > 1 || len(entry.Txs) == 1 && entry.Cut {
		log.Warnf("[channel: %s] blob %d is none of ours", n.channel, n.next-1)
		return &streampb.LogEntry{}
	}
	return &entry
}

// proposeCut ends a block that has been open for its time. Every orderer does so, and the first such blob counts.
// Should this one be lost it is repeated.
func (n *Node) proposeCut() {
	number := n.block.Block()
	told := func(err error) {
		if err != nil {
			log.Debugf("[channel: %s] time to cut block [%d]: %s", n.channel, number, err)
		}
	}
	if err := n.put(&streampb.LogEntry{Cut: true, CutBlock: number}, told); err != nil {
		told(err)
	}
	n.block.Again()
}
