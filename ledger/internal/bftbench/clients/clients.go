// Package clients is a machine of clients: thousands of them in one process, each with one transaction under way, over one
// connection to each replica.
package clients

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/zipf"
)

// Machine is a process of clients.
type Machine struct {
	run     plan.Run
	number  int
	suite   auth.Suite
	law     *zipf.Law
	need    int // need is how many equal replies a transaction waits for
	ready   chan []uint32
	answers chan answer
	conns   map[bft.ID]*conn
	leader  atomic.Uint64

	sent    []atomic.Int64  // by client: when its transaction was sent first, in nanoseconds since began
	tried   []atomic.Int64  // by client: when it was sent last; 0: none is under way
	numbers []atomic.Uint64 // by client: the number of its last transaction
	judged  []verdict       // by client; the judge's
	began   time.Time

	measuring atomic.Bool
	mu        sync.Mutex // mu is for what follows
	latency   *hdrhistogram.Histogram
	done      int64
	counts    Counts
}

// conn is a connection to a replica that several senders share.
type conn struct {
	mu sync.Mutex
	*link.Conn
}

// Counts are what went otherwise than it should.
type Counts struct {
	Retries   int64 // Retries is transactions that were sent to all replicas.
	Unequal   int64 // Unequal is replies that contradict an earlier one.
	Forged    int64 // Forged is replies without a proof.
	Committed int64 // Committed is all transactions so far, warm-up included.
}

// answer is a reply as a replica has sent it.
type answer struct {
	from bft.ID
	body []byte
}

// verdict is what a client has been told of its transaction.
type verdict struct {
	done   uint64 // done is the number of the last transaction that is ordered
	number uint64 // number is that of the one voters speak of
	key    bft.Digest
	voters uint64 // voters has a bit for each replica
}

const (
	readers = 1 << 12
	// senders is how many goroutines make and sign transactions.
	senders = 2
	// gathered is how many bytes of transactions go out at once.
	gathered = 32 << 10
)

// New makes a machine of run.Clients clients.
func New(run plan.Run, keys auth.Keys, number int) (*Machine, error) {
	p, err := protocol.Find(run)
	if err != nil {
		return nil, err
	}
	m := &Machine{
		run: run, number: number, law: run.Load.Law(), need: p.Accepts(run.Group()),
		ready: make(chan []uint32, run.Clients+1), answers: make(chan answer, readers), conns: map[bft.ID]*conn{},
		sent: make([]atomic.Int64, run.Clients), tried: make([]atomic.Int64, run.Clients),
		numbers: make([]atomic.Uint64, run.Clients), judged: make([]verdict, run.Clients),
		began: time.Now(), latency: newHistogram(),
	}
	m.leader.Store(1)
	m.suite, err = auth.New(keys, auth.Machine(number))
	return m, err
}

// newHistogram has latencies from a microsecond to two minutes, three digits of them.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120_000_000, 3) }

// record counts a latency; one beyond the bounds counts as the largest.
func record(h *hdrhistogram.Histogram, latency time.Duration) {
	_ = h.RecordValue(min(latency.Microseconds(), h.HighestTrackableValue()))
}

// Connect dials the replicas; those without an address have failed.
func (m *Machine) Connect(addresses map[bft.ID]string, config *tls.Config) error {
	for id, address := range addresses {
		if address == "" {
			continue
		}
		c, err := link.Dial(address, config, &link.Shape{Delay: m.run.Delay})
		if err != nil {
			return fmt.Errorf("replica %d: %w", id, err)
		}
		hello := &bft.Writer{Bytes: []byte{link.Hello}}
		hello.Uint(uint64(auth.Machine(m.number)))
		c.Append(hello.Bytes)
		if err := c.Flush(); err != nil {
			return err
		}
		m.conns[id] = &conn{Conn: c}
	}
	return nil
}

// Run has all clients send until ctx ends.
func (m *Machine) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		for _, c := range m.conns {
			_ = c.Close()
		}
	})
	defer stop()
	for id, c := range m.conns {
		group.Go(func() error { return m.read(ctx, id, c) })
	}
	for range senders {
		group.Go(func() error { return m.send(ctx) })
	}
	group.Go(func() error { return m.judge(ctx) })
	group.Go(func() error { return m.retry(ctx) })
	all := make([]uint32, m.run.Clients)
	for i := range all {
		all[i] = uint32(i)
	}
	for size := max(1, min(m.run.Requests(), len(all)/4)); len(all) > 0; {
		size = min(size, len(all))
		m.ready <- all[:size:size]
		all = all[size:]
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (m *Machine) read(ctx context.Context, id bft.ID, c *conn) error {
	for {
		frame, err := c.Next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("replica %d: %w", id, err)
		}
		r := bft.NewReader(frame[1:])
		body, proof := r.Chunk(), r.Chunk()
		if r.Err() != nil || frame[0] != link.Reply || !m.suite.Links.Verify(auth.Party(id), body, proof) {
			m.count(func(c *Counts) { c.Forged++ })
			continue
		}
		select {
		case m.answers <- answer{id, body}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Machine) count(f func(*Counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.counts)
}

// source makes the transactions of this machine's clients: all of its sources make the same, so that what is sent again is
// what was sent before.
func (m *Machine) source() *ycsb.Source { return ycsb.NewSource(m.run.Load, m.law, m.run.Seed) }

func (m *Machine) append(out *bft.Writer, source *ycsb.Source, client uint32, number uint64) {
	source.Append(out, m.suite.Requests, uint64(m.number)<<ycsb.MachineBits|uint64(client), number)
}

// send makes and signs transactions of clients that are ready.
func (m *Machine) send(ctx context.Context) error {
	source := m.source()
	out := &bft.Writer{}
	for {
		var clients []uint32
		select {
		case <-ctx.Done():
			return ctx.Err()
		case clients = <-m.ready:
		}
		for more := true; more; {
			for _, client := range clients {
				if len(out.Bytes) == 0 {
					out.Bytes = append(out.Bytes, link.Requests)
				}
				number := m.numbers[client].Add(1)
				now := int64(time.Since(m.began))
				m.sent[client].Store(now)
				m.tried[client].Store(now)
				m.append(out, source, client, number)
				if len(out.Bytes) > gathered {
					m.submit(bft.ID(m.leader.Load()), out)
				}
			}
			select {
			case clients = <-m.ready:
			default:
				more = false
			}
		}
		m.submit(bft.ID(m.leader.Load()), out)
	}
}

func (m *Machine) submit(to bft.ID, out *bft.Writer) {
	c := m.conns[to]
	if c != nil && len(out.Bytes) > 0 {
		c.mu.Lock()
		c.Append(out.Bytes)
		_ = c.Flush() // its reader tells of what is wrong
		c.mu.Unlock()
	}
	out.Bytes = out.Bytes[:0]
}

// judge counts replies.
func (m *Machine) judge(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-m.answers:
			if done := m.weigh(a); len(done) > 0 {
				m.ready <- done // each client is in it once at most: there is room
			}
		}
	}
}

// weigh takes one replica's reply for many clients, and returns those whose transactions it settles.
func (m *Machine) weigh(a answer) (settled []uint32) {
	r := bft.NewReader(a.body)
	_, key := r.Uint(), r.Digest()
	entries := r.Chunk()
	bit := uint64(1) << (a.from - 1)
	now := time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; len(entries) >= ycsb.AnswerSize; entries = entries[ycsb.AnswerSize:] {
		client, number := ycsb.ReadAnswer(entries)
		if int(client) >= len(m.judged) {
			break
		}
		v := &m.judged[client]
		if number <= v.done {
			continue
		}
		if number != v.number {
			*v = verdict{done: v.done, number: number, key: key}
		}
		if v.key != key {
			m.counts.Unequal++
			continue
		}
		if v.voters |= bit; bits.OnesCount64(v.voters) < m.need {
			continue
		}
		v.done, v.voters = number, 0
		m.tried[client].Store(0)
		m.counts.Committed += int64(m.run.Load.Burst)
		if m.measuring.Load() {
			m.done += int64(m.run.Load.Burst)
			record(m.latency, now-time.Duration(m.sent[client].Load()))
		}
		settled = append(settled, client)
	}
	return settled
}

// retry has clients that wait for long turn to all replicas.
func (m *Machine) retry(ctx context.Context) error {
	source := m.source()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(m.run.Retry / 4):
		}
		for client := range m.tried {
			at := m.tried[client].Load()
			if now := time.Since(m.began); at == 0 || now-time.Duration(at) < m.run.Retry || !m.tried[client].CompareAndSwap(at, int64(now)) {
				continue
			}
			out := &bft.Writer{Bytes: []byte{link.Requests}}
			m.append(out, source, uint32(client), m.numbers[client].Load())
			m.count(func(c *Counts) { c.Retries += int64(m.run.Load.Burst) })
			for id := range m.conns {
				m.submit(id, &bft.Writer{Bytes: append([]byte(nil), out.Bytes...)})
			}
		}
	}
}

// Measured is what a machine has seen during a window.
type Measured struct {
	Done    int64
	Latency *hdrhistogram.Histogram // in microseconds
	Counts
}

// Measure begins a window, and returns how to end it.
func (m *Machine) Measure() (end func() Measured) {
	m.mu.Lock()
	m.done, m.latency = 0, newHistogram()
	m.measuring.Store(true)
	m.mu.Unlock()
	return func() Measured {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.measuring.Store(false)
		return Measured{m.done, m.latency, m.counts}
	}
}
