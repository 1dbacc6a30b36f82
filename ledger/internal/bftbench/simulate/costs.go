package simulate

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/store"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Costs is what each step takes, measured by micro-benchmarks on this machine: one processor's time.
type Costs struct {
	Verify    time.Duration // Verify is of a client's signature of a request, which it hashes.
	Tag       time.Duration // Tag proves a reply to one receiver.
	TagByte   float64       // TagByte is nanoseconds more per byte of the reply.
	Broadcast time.Duration // Broadcast proves a message to all replicas.
	Check     time.Duration // Check is of what Broadcast made, by one receiver.
	Proof     int           // Proof is how many bytes Broadcast makes.
	Request   int           // Request is the size of a client's request with its signature, in bytes.

	Hash    float64       // Hash is nanoseconds per byte.
	Copy    float64       // Copy is nanoseconds per byte.
	Walk    time.Duration // Walk reads a request out of a frame or a batch.
	Gather  time.Duration // Gather puts a request into a batch.
	Execute time.Duration // Execute is all writes of a request, and its answer.
	Resume  time.Duration // Resume is Execute after others have had the caches that the table was in.

	Core // Core is the protocol's.

	Send, Receive         time.Duration // Send and Receive are of a write to a connection, the kernel's part included.
	SendByte, ReceiveByte float64       // SendByte and ReceiveByte are nanoseconds more per byte.
	Wake                  time.Duration // Wake has another goroutine begin.
	Handoff               time.Duration // Handoff is Wake of one that keeps its thread, as those of the batch stage do.
	Idle                  time.Duration // Idle is what it takes besides when the whole process has slept.
	Await                 time.Duration // Await has a frame wait until it is due, where links take time.
	Meter                 time.Duration // Meter is the replica's own count of a piece of work.
	Garbage               float64       // Garbage is nanoseconds of collecting per byte that is allocated. The others include it.
}

// Core is what the steps of a protocol's core take.
type Core struct {
	Spell time.Duration // Spell encodes a vote, Read decodes it.
	Read  time.Duration
	Step  map[string]time.Duration // Step is of the core, without proofs and digests, by what it is given.
	Bytes int                      // Bytes is what each of them allocates, in the mean: who makes how much is not known.
}

// Collected is c with what it takes to collect the garbage of each, where that is so many nanoseconds per byte.
func (c Core) Collected(garbage float64) Core {
	each := scale(garbage, c.Bytes)
	steps := make(map[string]time.Duration, len(c.Step))
	for kind, cost := range c.Step {
		steps[kind] = cost + each
	}
	c.Spell, c.Read, c.Step = c.Spell+each, c.Read+each, steps
	return c
}

// MeasureCosts takes what a run needs beside its protocol's core. It takes a second or two, and ends in between where ctx
// does.
func MeasureCosts(ctx context.Context, run plan.Run) (c Costs, err error) {
	apart(func() { c, err = measureCosts(ctx, run) })
	return c, err
}

// MeasureCore takes what the core of a run's protocol needs, without collecting its garbage. It ends as MeasureCosts does.
func MeasureCore(ctx context.Context, run plan.Run) (c Core, err error) {
	apart(func() { c, err = measureCore(ctx, run) })
	return c, err
}

// apart measures as in a replica of one processor. A goroutine that keeps its thread, as a program's first may, is woken
// at a far higher price. What is typical leaves the few collections out: of those each step has the part that its garbage
// makes.
func apart(measure func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		measure()
	}()
	<-done
}

func measureCosts(ctx context.Context, run plan.Run) (Costs, error) {
	var c Costs
	keys, err := auth.NewKeys(run.Auth, run.Replicas, 1)
	if err != nil {
		return c, err
	}
	one, err1 := auth.New(keys, 1)
	two, err2 := auth.New(keys, 2)
	client, err3 := auth.New(keys, auth.Machine(0))
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return c, err
		}
	}
	var request ycsb.Signed
	for _, part := range []func() error{
		func() error { request, err = c.measureRequests(ctx, run, client); return err },
		func() error { c.measureProofs(one, two, request); return nil },
		c.measureConnections,
		c.measureThreads,
	} {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		if err := part(); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *Costs) measureProofs(one, two auth.Suite, request ycsb.Signed) {
	c.Verify = c.measure(8, func(n int) {
		for range n {
			two.Requests.VerifyBroadcast(auth.Machine(0), request.Body, request.Signature)
		}
	})
	data := make([]byte, 16<<10)
	tag := func(of []byte) time.Duration {
		return c.measure(4, func(n int) {
			for range n {
				one.Links.Tag(auth.Machine(0), of)
			}
		})
	}
	c.Tag = tag(nil)
	c.TagByte = max(0, float64(tag(data)-c.Tag)/float64(len(data)))
	statement := make([]byte, 80)
	proof := one.Links.Broadcast(statement)
	c.Proof = len(proof)
	c.Broadcast = c.measure(4, func(n int) {
		for range n {
			one.Links.Broadcast(statement)
		}
	})
	c.Check = c.measure(8, func(n int) {
		for range n {
			two.Links.VerifyBroadcast(1, statement, proof)
		}
	})
	c.Hash = float64(c.measure(8, func(n int) {
		for range n {
			sha256.Sum256(data)
		}
	})) / float64(len(data))
	to := make([]byte, len(data))
	c.Copy = float64(c.measure(100, func(n int) {
		for range n {
			copy(to, data)
		}
	})) / float64(len(data))
}

// measureRequests returns one of the requests, with its client's signature.
func (c *Costs) measureRequests(ctx context.Context, run plan.Run, client auth.Suite) (one ycsb.Signed, err error) {
	// Each chunk has other transactions: what they touch is as cold as in a real run.
	count := min(run.Requests(), 200)
	folder, err := os.MkdirTemp("", "qioi-bft-bench-")
	if err != nil {
		return one, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	table, err := store.Open(run.Execution, folder, run.Load.Records, run.Load.Value)
	if err != nil {
		return one, err
	}
	defer func() { _ = table.Close() }()
	if err := ctx.Err(); err != nil { // a large table takes long
		return one, err
	}
	c.measureGarbage()
	source := ycsb.NewSource(run.Load, run.Load.Law(), 1)
	w := &bft.Writer{}
	source.Append(w, client.Requests, 1, 1)
	one = ycsb.ReadSigned(bft.NewReader(w.Bytes))
	var txs []ycsb.Signed
	unsigned := fixed(one.Signature) // signing so many would take long
	frame := &bft.Writer{}
	for i := range count {
		source.Append(frame, unsigned, uint64(i), 1)
	}
	c.Request = len(frame.Bytes) / count
	c.Walk = c.measureCold(ownCache, func(int) {
		txs = txs[:0]
		r := bft.NewReader(frame.Bytes)
		for range count {
			txs = append(txs, ycsb.ReadSigned(r))
		}
	}) / time.Duration(count)
	c.Gather = c.measureCold(ownCache, func(int) { ycsb.Batch(txs, 1) }) / time.Duration(count)
	batches := batchesFor(3, count, source, unsigned)
	last := make(map[uint64]uint64, (chunks+1)*count)
	var failed error
	execute := func(int) {
		answers := make([]byte, 0, count*ycsb.AnswerSize)
		failed = errors.Join(failed, ycsb.Unbatch(batches[0], func(t ycsb.Signed) bool {
			client, number := ycsb.Who(t.Body)
			if number > last[client] {
				last[client] = number
			}
			if err := ycsb.Execute(t.Body, table); err != nil {
				failed = err
				return false
			}
			answers = ycsb.AppendAnswer(answers, client, number)
			return true
		}))
		batches = batches[1:]
	}
	c.measureCold(0, execute) // a table that nobody has written to, and clients whom nobody has seen, take longer
	c.Execute = c.measureCold(ownCache, execute) / time.Duration(count)
	c.Resume = c.measureCold(sharedCache, execute) / time.Duration(count)
	return one, failed
}

// batchesFor are those of so many measurements, each with one more to warm up. Every measurement has the clients of the one
// before, with their next transactions, as a replica has seen its clients before.
func batchesFor(measurements, count int, source *ycsb.Source, unsigned fixed) (batches [][]byte) {
	for number := range measurements {
		for i := range chunks + 1 {
			frame, txs := &bft.Writer{}, []ycsb.Signed(nil)
			for j := range count {
				source.Append(frame, unsigned, uint64(i*count+j), uint64(number)+1)
			}
			for r := bft.NewReader(frame.Bytes); len(txs) < count; {
				txs = append(txs, ycsb.ReadSigned(r))
			}
			batches = append(batches, ycsb.Batch(txs, 1))
		}
	}
	return batches
}

// fixed signs everything alike.
type fixed []byte

func (f fixed) Tag(auth.Party, []byte) []byte                   { return f }
func (f fixed) Broadcast([]byte) []byte                         { return f }
func (f fixed) Verify(auth.Party, []byte, []byte) bool          { return true }
func (f fixed) VerifyBroadcast(auth.Party, []byte, []byte) bool { return true }
