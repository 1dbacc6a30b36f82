package chain

import (
	"context"
	"fmt"
	"time"
)

// commit is stage 2.
func (p *pipeline) commit(ctx context.Context) error {
	for {
		var j *job
		select {
		case j = <-p.jobs:
		case found := <-p.words.lied:
			j = &job{distrust: found.why, base: found.run}
		case <-ctx.Done():
			return nil
		}
		if j.base != p.base.Load() {
			p.discard(j)
			continue
		}
		j.mu.Lock()
		p.check(j)
		j.mu.Unlock()
		d, err := p.take(j)
		if err != nil {
			return fmt.Errorf("[%s] %w", p.chain.ledger.channelID, err)
		}
		if d == nil {
			p.discard(j)
			continue
		}
		d.weight = j.weight
		if j.applied != nil {
			close(j.applied)
		}
		select {
		case p.results <- *d:
		case <-ctx.Done():
			return nil
		}
	}
}

// take puts an item into effect, and gives what stage 3 is to do; nil: nothing.
func (p *pipeline) take(j *job) (d *done, err error) {
	denied := j.distrust
	switch {
	case denied != nil:
	case j.word != nil:
		denied = p.takeWord(j)
	case j.header == nil:
		return p.takeTx(j)
	default:
		d, denied = p.takeSeal(j)
	}
	if denied != nil {
		d = p.deny(denied)
	}
	return d, nil
}

// takeWord gives why the open block is to be taken back, if it is.
func (p *pipeline) takeWord(j *job) (denied error) {
	l := p.chain.ledger
	p.words.offer(l.next, l.state.Snapshot())
	// A seal has decided on the running hash with which a block begins.
	if p.words.say(j.by, *j.word) != Contradicts || j.word.Tx == 0 {
		return nil
	}
	return fmt.Errorf("orderer %s has another running hash for it", j.by)
}

func (p *pipeline) takeTx(j *job) (*done, error) {
	l, start := p.chain.ledger, time.Now()
	d := &done{at: l.next, tx: j.tx, run: j.base, holds: l.last.Load().holds(), arrived: j.arrived}
	var err error
	if d.code, err = l.decide(j.tx, j.code); err != nil {
		return nil, fmt.Errorf("duplicate check: %w", err)
	}
	decided := time.Now()
	if err := l.record(j.tx, d.code); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if l.hashes() {
		p.words.reached(string(l.word))
		if len(p.jobs) == 0 {
			p.words.offer(l.next, l.state.Snapshot())
		}
	}
	p.reached = j.bounds
	d.recorded = time.Now()
	p.validation += decided.Sub(start)
	p.state += d.recorded.Sub(decided)
	p.busy[stageCommit].Add(d.recorded.Sub(start))
	return d, nil
}

// takeSeal gives why the seal is none of the open block, if it is not.
func (p *pipeline) takeSeal(j *job) (d *done, denied error) {
	if j.err != nil {
		return nil, j.err
	}
	l := p.chain.ledger
	d = &done{at: l.next, header: j.header, run: j.base, validation: p.validation, state: p.state}
	if d.metadata, denied = l.seal(j.header, j.metadata); denied != nil {
		return nil, denied
	}
	d.mark = l.mark()
	p.reached = newBounds(d.mark.bundle)
	p.words.sealed(d.mark)
	p.validation, p.state = 0, 0
	return d, nil
}
