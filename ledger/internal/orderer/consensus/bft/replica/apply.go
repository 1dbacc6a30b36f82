package replica

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// applyAll puts entries into the ledger, and asks for a cut when a block has been open for its time.
func (n *Node) applyAll(ctx context.Context) error {
	timer := consensus.NewBlockTimer(n.cutAfter)
	defer timer.Stop()
	n.seals.ctx = ctx
	ready := make(chan []work)
	go func() {
		defer close(ready)
		for items := n.work.take(); items != nil; items = n.work.take() {
			select {
			case ready <- items:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case items, open := <-ready:
			if !open {
				return ctx.Err()
			}
			n.work.begin(items)
			n.applying.Work()
			if err := n.workOff(ctx, items); err != nil {
				return err
			}
			n.applying.Wait()
			timer.Watch(n.host.Open())
		case <-timer.C():
			block := timer.Block()
			if number, txs := n.host.Open(); number == block && txs > 0 {
				n.tell(ctx, news{in: bft.Submit{Tx: cutOf(block)}})
				timer.Again() // until it is cut
			}
		}
	}
}

// cutAfter gives the leader the first word: the others ask for a cut when it does not.
func (n *Node) cutAfter() (after time.Duration) {
	after = n.settings.CutInterval()
	if n.Leader() != n.settings.ID {
		after += n.settings.Bundle().Orderer.BFT.ViewChangeTimeout / 4
	}
	return after
}

func (n *Node) tell(ctx context.Context, what news) {
	select {
	case n.inputs <- what:
	case <-ctx.Done():
	}
}

func (n *Node) workOff(ctx context.Context, items []work) error {
	for _, w := range items {
		if w.leader != nil {
			n.host.LeaderChanged(0, *w.leader) // what waits goes on to wait
		}
		if err := n.apply(ctx, w.apply); err != nil {
			return err
		}
		if w.fetch != nil {
			if err := n.fetch(ctx, w.fetch.Certificate); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Node) apply(ctx context.Context, ordered []bft.Ordered) error {
	for len(ordered) > 0 {
		// A state that is to be synced ends its block, so that the ledger has all of it.
		var entries []*streampb.LogEntry
		var last bft.Ordered
		first := ordered[0].Seq
		for len(ordered) > 0 && !last.Sync {
			last, ordered = ordered[0], ordered[1:]
			if last.Entry != nil {
				entries = append(entries, logEntry(last))
			}
		}
		if len(entries) > 0 {
			if err := n.host.Apply(first, entries...); err != nil {
				return err
			}
		}
		n.learn(last.Seq)
		if !last.Sync {
			continue
		}
		if last.Entry == nil && n.host.Applied().Index > last.Seq {
			// After a start the state is asked for again, and the ledger is beyond it: what it has now is another state.
			continue
		}
		if err := n.host.Sync(); err != nil {
			return err
		}
		state, err := n.stateOf(n.host.Height())
		if err != nil {
			return err
		}
		members := slices.Sorted(slices.Values(n.host.Members()))
		n.tell(ctx, news{in: bft.Synced{Seq: last.Seq, State: state, Members: members}})
	}
	return nil
}

// logEntry spells an entry as the ledger knows it.
func logEntry(o bft.Ordered) *streampb.LogEntry {
	entry := &streampb.LogEntry{}
	for _, tx := range o.Entry.Txs {
		if block, is := cutIn(tx); is {
			entry.Cut, entry.CutBlock = true, block
		} else {
			entry.Txs = append(entry.Txs, tx)
		}
	}
	if o.Sync {
		entry.Cut, entry.CutBlock = true, 0
	}
	return entry
}

// stateOf names the ledger with so many blocks: their number, and enough of the last one's hash.
func (n *Node) stateOf(height uint64) (state bft.Digest, err error) {
	block, err := n.host.Block(height - 1)
	if err != nil {
		return state, err
	}
	binary.BigEndian.PutUint64(state[:8], height)
	copy(state[8:], protoutil.BlockHeaderHash(block.Header))
	return state, nil
}

// A cut is a transaction of the orderers' own: the end of one block. No envelope begins with this byte.
const cutMark = 0

func cutOf(block uint64) []byte { return binary.BigEndian.AppendUint64([]byte{cutMark}, block) }

func cutIn(tx []byte) (block uint64, is bool) {
	if len(tx) != 9 || tx[0] != cutMark {
		return 0, false
	}
	return binary.BigEndian.Uint64(tx[1:]), true
}

// learn takes over who the members are, and their keys, where a configuration has come into force that begins the epoch.
func (n *Node) learn(epoch uint64) {
	if n.oracle.learn(epoch) {
		n.outbox.regroup()
	}
	n.seals.learn()
}
