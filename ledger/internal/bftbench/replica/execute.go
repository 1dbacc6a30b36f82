package replica

import (
	"context"
	"crypto/sha256"

	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// executor makes the writes of ordered batches, strictly in their order, and answers the clients.
type executor struct {
	r     *Replica
	table ycsb.Table
	state bft.Digest // state is the chain of all batches so far
	since []bft.Digest
	last  map[uint64]uint64 // last is the number of each client's last transaction
	at    uint64            // at is the last entry that was executed
	// points are ends of intervals that were executed, before or when they are decided.
	points map[uint64]*point
}

func newExecutor(r *Replica, table ycsb.Table) *executor {
	return &executor{r: r, table: table, last: make(map[uint64]uint64, r.cfg.Run.Clients), points: map[uint64]*point{}}
}

func (e *executor) run(ctx context.Context) error {
	meter := e.r.meters[stage.Execute]
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-e.r.execs:
			span := meter.Begin()
			p, err := e.execute(stage.Take(&span, o))
			if e.r.worker.inline != nil {
				e.r.worker.inline.flush()
			}
			span.End(1)
			if err != nil {
				return err
			}
			if p != nil {
				e.r.sync(ctx, *p, nil)
			}
		}
	}
}

// point is what a checkpoint is about: the batches since the one before.
type point struct {
	seq   uint64
	state bft.Digest
	since []bft.Digest
}

// execute makes a block of an entry, unless that was executed ahead; where it ends an interval it returns what to vouch for.
func (e *executor) execute(o bft.Ordered) (*point, error) {
	if o.Entry != nil && o.Seq > e.at {
		e.at = o.Seq
		for _, batch := range o.Entry.Txs {
			if err := e.batch(o.Seq, batch); err != nil {
				return nil, err
			}
		}
	}
	if o.Seq == e.at && o.Seq%uint64(e.r.cfg.Run.Interval()) == 0 && e.points[o.Seq] == nil {
		e.points[o.Seq] = &point{o.Seq, e.state, e.since}
		e.since = nil
	}
	if !o.Sync {
		return nil, nil
	}
	p := e.points[o.Seq]
	delete(e.points, o.Seq)
	return p, nil
}

func (e *executor) batch(seq uint64, batch []byte) error {
	own := sha256.Sum256(batch)
	e.since = append(e.since, own)
	e.state = sha256.Sum256(append(e.state[:], own[:]...))
	answers := map[int][]byte{}
	var failed error
	_ = ycsb.Unbatch(batch, func(t ycsb.Signed) bool { // a malformed rest is the same at all replicas
		client, number := ycsb.Who(t.Body)
		if number > e.last[client] {
			e.last[client] = number
			if failed = ycsb.Execute(t.Body, e.table); failed != nil {
				return false
			}
		}
		machine := ycsb.MachineOf(client)
		list := answers[machine]
		if list == nil {
			list = make([]byte, 0, ycsb.AnswerSize*e.r.cfg.Run.Requests())
		}
		answers[machine] = ycsb.AppendAnswer(list, client, number)
		return true
	})
	for machine, list := range answers {
		if to := e.r.machine(machine); to != nil {
			w := &bft.Writer{Bytes: make([]byte, 0, 64+len(list))}
			w.Uint(seq)
			w.Digest(e.state)
			w.Chunk(list)
			e.r.post(parcel{to: to, kind: link.Reply, body: w.Bytes})
		}
	}
	return failed
}

// sync hands a checkpoint on; without threads of its own it is the worker's, whom later reaches if that is who calls.
func (r *Replica) sync(ctx context.Context, p point, later func(bft.Input)) {
	switch {
	case r.cfg.Run.Stages.Checkpoint > 0:
		put(ctx, r.syncs, p)
	case later != nil:
		later(r.vouch(p))
	default:
		put(ctx, r.points, p)
	}
}

func (r *Replica) runCheckpoint(ctx context.Context) error {
	meter := r.meters[stage.Checkpoint]
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case waiting := <-r.syncs:
			span := meter.Begin()
			p := stage.Take(&span, waiting)
			p.state = summary(p)
			p.since = nil
			span.End(1)
			put(ctx, r.points, p)
		}
	}
}

// vouch is what the core is told of a checkpoint.
func (r *Replica) vouch(p point) bft.Input {
	if p.since != nil {
		p.state = summary(p)
	}
	return bft.Synced{Seq: p.seq, State: p.state, Members: r.cfg.Run.Group().Members}
}

// summary is the digest that replicas compare.
func summary(p point) bft.Digest {
	h := sha256.New()
	for _, d := range p.since {
		h.Write(d[:])
	}
	h.Write(p.state[:])
	return bft.Digest(h.Sum(nil))
}
