// Package replica is one replica of the benchmark: the pipeline of input, batch, worker, execute, checkpoint and output
// around a protocol's core, with nothing of a ledger in the way.
//
// The way of a transaction at the primary: input decodes and cuts batches, batch verifies the clients' signatures and
// makes one string, the worker steps the core, execute writes and answers, checkpoint vouches for the state, output
// encodes, proves and sends. A stage without threads is done by the worker.
package replica

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/bftbench/store"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// Config is what one replica needs to know.
type Config struct {
	Run    plan.Run
	ID     bft.ID
	Keys   auth.Keys
	TLS    link.Certificate
	Folder string // Folder is for SQLite's file.
}

// Replica is one. Its methods are for one goroutine, but for Sample.
type Replica struct {
	made     time.Time
	cfg      Config
	protocol protocol.Protocol
	suite    auth.Suite
	listener net.Listener
	server   *tls.Config
	dialling *tls.Config
	shape    *link.Shape

	cutter   cutter
	verified verified
	batches  chan stage.Waiting[task]
	work     chan stage.Waiting[task]
	points   chan stage.Waiting[point] // points are the worker's, too
	execs    chan stage.Waiting[bft.Ordered]
	syncs    chan stage.Waiting[point]
	outs     []chan stage.Waiting[parcel]
	tokens   chan struct{} // of the input stage

	meters  map[string]*stage.Meter
	dropped atomic.Int64 // messages to replicas whose queue was full
	refused atomic.Int64 // transactions and messages whose proof was none
	batched atomic.Int64 // batches that were made
	failed  chan error
	stopped chan struct{}

	worker   *worker
	executor *executor

	mu       sync.Mutex
	replicas map[bft.ID]*target
	machines map[int]*target
	conns    []*link.Conn
}

// queued is the capacity of queues. Clients wait for answers, so that no more than what they have sent is under way;
// what replicas tell each other of it fits.
const queued = 1 << 14

// New listens; Run serves.
func New(cfg Config) (*Replica, error) {
	p, err := protocol.Find(cfg.Run)
	if err != nil {
		return nil, err
	}
	r := &Replica{made: time.Now(), cfg: cfg, protocol: p, meters: map[string]*stage.Meter{}, replicas: map[bft.ID]*target{}, machines: map[int]*target{}}
	if r.suite, err = auth.New(cfg.Keys, auth.Party(cfg.ID)); err != nil {
		return nil, err
	}
	if cfg.Run.TLS {
		if r.server, r.dialling, err = cfg.TLS.Configs(); err != nil {
			return nil, err
		}
	}
	r.shape = &link.Shape{Delay: cfg.Run.Delay, Bandwidth: cfg.Run.Bandwidth}
	table, err := store.Open(cfg.Run.Execution, cfg.Folder, cfg.Run.Load.Records, cfg.Run.Load.Value)
	if err != nil {
		return nil, err
	}
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s := cfg.Run.Stages
	r.batches, r.work = make(chan stage.Waiting[task], queued), make(chan stage.Waiting[task], queued)
	r.execs = make(chan stage.Waiting[bft.Ordered], cfg.Run.Window()+64)
	r.points, r.syncs = make(chan stage.Waiting[point], 64), make(chan stage.Waiting[point], 64)
	r.failed, r.stopped = make(chan error, 1), make(chan struct{})
	r.tokens = make(chan struct{}, max(1, s.Input))
	for range s.Output {
		r.outs = append(r.outs, make(chan stage.Waiting[parcel], queued))
	}
	r.measure()
	r.executor = newExecutor(r, table)
	r.worker = newWorker(r)
	r.cutter.init(r)
	return r, nil
}

func (r *Replica) measure() {
	s := r.cfg.Run.Stages
	add := func(name string, threads int, queues ...gauged) {
		m := &stage.Meter{Name: name, Threads: threads}
		if threads > 0 && len(queues) > 0 {
			m.Queue = func() (all int) {
				for _, q := range queues {
					all += q.length()
				}
				return all
			}
			for _, q := range queues {
				m.Capacity += q.capacity
			}
		}
		r.meters[name] = m
	}
	add(stage.Input, s.Input)
	add(stage.Batch, s.Batch, gauge(r.batches))
	add(stage.Worker, 1, gauge(r.work), gauge(r.points))
	add(stage.Execute, s.Execute, gauge(r.execs))
	add(stage.Checkpoint, s.Checkpoint, gauge(r.syncs))
	var outs []gauged
	for _, out := range r.outs {
		outs = append(outs, gauge(out))
	}
	add(stage.Output, s.Output, outs...)
}

// gauged is a queue as a meter sees it.
type gauged struct {
	length   func() int
	capacity int
}

func gauge[T any](queue chan T) gauged {
	return gauged{func() int { return len(queue) }, cap(queue)}
}

// Address is where it listens.
func (r *Replica) Address() string { return r.listener.Addr().String() }

// Meters are what its stages count.
func (r *Replica) Meters() []*stage.Meter {
	var all []*stage.Meter
	for _, name := range stage.Names {
		all = append(all, r.meters[name])
	}
	return all
}

// Connect dials the other replicas, by number; those without an address have failed.
func (r *Replica) Connect(addresses map[bft.ID]string) error {
	for id, address := range addresses {
		if id == r.cfg.ID || address == "" {
			continue
		}
		c, err := link.Dial(address, r.dialling, r.shape)
		if err != nil {
			return fmt.Errorf("replica %d: %w", id, err)
		}
		hello := &bft.Writer{Bytes: []byte{link.Hello}}
		hello.Uint(uint64(r.cfg.ID))
		c.Append(hello.Bytes)
		if err := c.Flush(); err != nil {
			return err
		}
		r.mu.Lock()
		r.replicas[id] = &target{conn: c, queue: int(id)}
		r.conns = append(r.conns, c)
		r.mu.Unlock()
	}
	return nil
}

// Run serves until ctx ends.
func (r *Replica) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		close(r.stopped)
		_ = r.listener.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.conns {
			_ = c.Close()
		}
	})
	defer stop()
	s := r.cfg.Run.Stages
	group.Go(func() error { return r.accept(ctx) })
	group.Go(func() error {
		select {
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	group.Go(func() error { return r.cutter.run(ctx) })
	for range s.Batch {
		group.Go(func() error { return r.runBatch(ctx) })
	}
	group.Go(func() error { return r.worker.run(ctx) })
	if s.Execute > 0 {
		group.Go(func() error { return r.executor.run(ctx) })
	}
	if s.Checkpoint > 0 {
		group.Go(func() error { return r.runCheckpoint(ctx) })
	}
	for _, out := range r.outs {
		group.Go(func() error { return r.runOutput(ctx, out) })
	}
	err := group.Wait()
	if closing := r.executor.table.Close(); err == nil || ctx.Err() != nil && err == ctx.Err() {
		err = closing
	}
	return err
}

// Sample is what the replica has counted.
type Sample struct {
	At      float64 // seconds since the replica was made
	Stages  []stage.Sample
	Process stage.Process
	Dropped int64
	Refused int64
}

// Sample reads it. Any goroutine may ask.
func (r *Replica) Sample() Sample {
	s := Sample{At: time.Since(r.made).Seconds(), Process: stage.Self(), Dropped: r.dropped.Load(), Refused: r.refused.Load()}
	for _, m := range r.Meters() {
		s.Stages = append(s.Stages, m.Sample())
	}
	return s
}

// fail ends Run with an error.
func (r *Replica) fail(err error) {
	select {
	case r.failed <- err:
	default: // one is enough
	}
}

// put waits for room in a queue. An item that waits for room waits for the stage, too.
func put[T any](ctx context.Context, queue chan stage.Waiting[T], item T) {
	waiting := stage.Wait(item)
	select {
	case queue <- waiting:
	default:
		select {
		case queue <- waiting:
		case <-ctx.Done():
		}
	}
}

// offer puts an item into a queue that has room.
func offer[T any](queue chan stage.Waiting[T], item T) bool {
	select {
	case queue <- stage.Wait(item):
		return true
	default:
		return false
	}
}

// task is something for the batch stage or the worker: what is not decoded, transactions to make a batch of, or an input.
type task struct {
	frame   []byte // frame is not decoded yet
	from    bft.ID
	group   []ycsb.Signed
	batch   []byte // batch is what clients have signed, to be submitted
	message bft.Message
	proof   []byte // proof is of payload, which is the message's spelling
	payload []byte
	checked bool // checked: the clients' signatures of batch, or of what message proposes, are verified
}
