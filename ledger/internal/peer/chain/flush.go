package chain

import (
	"context"
	"time"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/wire"
)

var log = ops.Logger("kvledger")

// flush is stage 3: it writes what waits, syncs once for all of it, and only then tells anybody.
func (p *pipeline) flush(ctx context.Context) error {
	var group []done
	for {
		group = group[:0]
		select {
		case d := <-p.results:
			group = append(group, d)
		case <-p.words.advanced:
		case <-ctx.Done():
			return nil
		}
		for more := true; more && len(group) < groupItems; {
			select {
			case d := <-p.results:
				group = append(group, d)
			default:
				more = false
			}
		}
		if err := p.flushGroup(group); err != nil {
			return err
		}
	}
}

// flushGroup writes a group, and tells what may be told then. An empty one has it look again at what is held.
func (p *pipeline) flushGroup(group []done) error {
	var weight int64
	for i := range group {
		weight += group[i].weight
	}
	group = settled(group)
	start := time.Now()
	if len(group) > 0 {
		if group[0].distrust != nil {
			p.storage = 0 // what earlier groups wrote is taken back; a later distrust comes after a seal, which takes it
		}
		if err := p.write(group); err != nil {
			return err
		}
	}
	took := time.Since(start)
	p.storage += took
	p.busy[stageFlush].Add(took)
	tell := p.tellable(group)
	if len(tell) > 0 {
		p.publish(tell)
	}
	p.told(len(tell))
	clear(group)
	p.bytes.Release(weight)
	return nil
}

// tellable gives what may be told of what is on disk. Where one orderer's word is not enough, transactions are held until
// enough orderers have vouched for them; where it is not, or in block mode, until the seal.
func (p *pipeline) tellable(group []done) []done {
	if len(p.held) == 0 && (len(group) == 0 || !group[len(group)-1].holds) {
		return group
	}
	p.held = settled(append(p.held, group...))
	n := len(p.held)
	if n == 0 {
		return nil
	}
	// A place in a later block is where a verified seal has put it. That seal may not be on disk yet: it releases its
	// block when its turn comes.
	vouched := p.words.covered(p.held[n-1].run)
	for n > 0 && p.held[n-1].holds && (!p.held[n-1].at.Before(vouched) || p.held[n-1].at.Block < vouched.Block) {
		n--
	}
	return p.held[:n]
}

// told keeps of what is held all but the first n.
func (p *pipeline) told(n int) {
	if len(p.held) == 0 {
		return
	}
	left := copy(p.held, p.held[n:])
	clear(p.held[left:])
	p.held = p.held[:left]
}

func (p *pipeline) write(group []done) error {
	store := p.chain.store
	for i := range group {
		d := &group[i]
		var err error
		switch {
		case d.distrust != nil:
			err = p.dropOpen(d)
		case d.header != nil:
			err = store.AppendSeal(d.header, d.metadata)
		default:
			err = store.AppendTx(d.at.Block, d.at.Tx, d.tx.Raw, byte(d.code))
		}
		if err != nil {
			return err
		}
	}
	wire.LetSend() // the orderers' answers to submits come with these transactions: clients ask for the outcome then
	return store.Sync()
}

// publish tells all waiters that the group is durable.
func (p *pipeline) publish(group []done) {
	c, over, keys := p.chain, 0, p.keys[:0]
	for i := range group {
		d := &group[i]
		if d.distrust != nil {
			over++
		}
		if d.header != nil || d.distrust != nil {
			c.open = c.open[:0]
			continue
		}
		keys = append(keys, d.tx.Key)
		c.open = append(c.open, d.tx.ID)
		c.metrics.transaction(d.tx, d.code)
	}
	c.metrics.told(group)
	last := &group[len(group)-1]
	upTo := Position{last.at.Block, last.at.Tx + 1}
	switch {
	case last.header != nil:
		upTo = Position{Block: last.header.Number + 1}
	case last.distrust != nil:
		upTo = last.at
	}
	c.ledger.index.publish(upTo, over, keys)
	now := time.Now()
	for i := range group {
		if group[i].distrust != nil {
			continue
		}
		if group[i].header == nil {
			if !group[i].arrived.IsZero() { // it has not been there since the start
				c.metrics.durable(&group[i], now)
			}
			continue
		}
		c.feed.rise()
		c.sealed = group[i].mark
		c.commit(&group[i], p.storage)
		p.storage = 0
	}
	c.saved.offer(c.sealed)
	p.keys = keys
}

// commit logs a sealed block in Fabric's words: QiOi and its users read this line.
func (c *Chain) commit(d *done, storage time.Duration) {
	total := d.validation + storage + d.state
	c.metrics.block(d.header.Number+1, total, storage, d.state)
	log.Infof("[%s] Committed block [%d] with %d transaction(s) in %dms (state_validation=%dms block_and_pvtdata_commit=%dms state_commit=%dms) commitHash=[%x]",
		c.ledger.channelID, d.header.Number, d.at.Tx, total.Milliseconds(), d.validation.Milliseconds(), storage.Milliseconds(),
		d.state.Milliseconds(), d.mark.Commit)
}
