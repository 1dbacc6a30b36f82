// Package plan says what one run of the benchmark is: the protocol, the pipeline, who proves what how, and the load.
package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/store"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/finite"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Who verifies the signatures of clients.
const (
	CheckAll     = "all"     // every replica, as PBFT needs it where a primary may lie
	CheckPrimary = "primary" // the primary alone, as the paper describes it
)

// Stages are the threads of each part of the pipeline; 0: the worker does it. There is one worker always.
type Stages struct{ Input, Batch, Execute, Checkpoint, Output int }

// Run is one run.
type Run struct {
	Protocol string
	Replicas int
	Failed   int // Failed is how many backups never start; at most f.

	Batch      int           // Batch is transactions of an entry.
	Linger     time.Duration // Linger is how long a batch waits to be full.
	Checkpoint int           // Checkpoint is transactions from one checkpoint to the next.
	Overlap    int           // Overlap is entries that the primary has under way at once; 1: in order.
	Stages     Stages
	Check      string

	Auth      string
	TLS       bool
	Execution string
	Load      ycsb.Load

	Clients int           // Clients is how many have a burst of transactions under way, each one.
	Retry   time.Duration // Retry is after which a client turns to all replicas.
	Fast    time.Duration // Fast is how long a client of Zyzzyva waits for the last replicas.

	Delay     time.Duration // Delay is what every message of a replica takes longer.
	Bandwidth float64       // Bandwidth is of what a replica sends, in bytes per second; 0: as much as the host can.

	Quota      float64 // Quota is each replica's CPU, in cores, at least leastQuota; 0: without a bound.
	Processors int     // Processors is on how many threads a replica runs Go code; 0: Quota, rounded up, or a fair part of the host's.
	Seed       uint64
}

// leastQuota is what the kernel takes: a millisecond in the period of ten.
const leastQuota = 0.1

// Default is the setting that the paper begins with, as far as a host of few cores can have it.
func Default() Run {
	return Run{
		Protocol: "pbft", Replicas: 4, Batch: 100, Linger: 5 * time.Millisecond, Checkpoint: 10_000, Overlap: 64,
		Stages: Stages{Input: 3, Batch: 2, Execute: 1, Checkpoint: 1, Output: 2}, Check: CheckAll,
		Auth: auth.MAC, Execution: store.Memory,
		Load:    ycsb.Load{Records: 600_000, Skew: 0.9, Operations: 1, Burst: 1, Value: 8},
		Clients: 2000, Retry: 10 * time.Second, Fast: 100 * time.Millisecond, Seed: 1,
	}
}

// Faulty is f.
func (r Run) Faulty() int { return (r.Replicas - 1) / 3 }

// Group is the replicas, numbered from 1.
func (r Run) Group() bft.Group {
	var g bft.Group
	for i := range r.Replicas {
		g.Members = append(g.Members, bft.ID(i+1))
	}
	return g
}

// Interval is entries from one checkpoint to the next.
func (r Run) Interval() int { return max(1, r.Checkpoint/r.Batch) }

// Window is entries beyond the stable checkpoint that may be under way. It is wide, since no replica fetches state: one that
// gets less CPU than the others for a while must not fall out of it.
func (r Run) Window() int { return 8*r.Interval() + 2*r.Overlap }

// Requests is how many requests of clients fill a batch.
func (r Run) Requests() int { return max(1, r.Batch/r.Load.Burst) }

// Alive are the replicas that start.
func (r Run) Alive() int { return r.Replicas - r.Failed }

// largestBatch leaves room in a frame between replicas (64 MiB) for signatures and the protocol's own.
const largestBatch = 48 << 20

// Validate says what is wrong with the run.
func (r Run) Validate() error {
	s := r.Stages
	switch {
	case r.Replicas < 4 || r.Replicas > 64:
		return fmt.Errorf("replicas %d: 4 to 64 are accepted", r.Replicas)
	case r.Failed < 0 || r.Failed > r.Faulty():
		return fmt.Errorf("failed %d: 0 to %d are accepted of %d replicas", r.Failed, r.Faulty(), r.Replicas)
	case r.Batch < 1 || r.Batch > 10_000:
		return fmt.Errorf("batch %d: 1 to 10000 are accepted", r.Batch)
	case r.Clients < 1 || r.Clients > 100_000:
		return fmt.Errorf("clients %d: 1 to 100000 are accepted", r.Clients)
	case r.Overlap < 1 || r.Overlap > 4096:
		return fmt.Errorf("overlap %d: 1 to 4096 are accepted", r.Overlap)
	case r.Checkpoint < 1:
		return fmt.Errorf("checkpoint %d: 1 and above are accepted", r.Checkpoint)
	case min(s.Input, s.Batch, s.Execute, s.Checkpoint, s.Output) < 0 || max(s.Input, s.Batch, s.Output) > 64:
		return fmt.Errorf("stages %+v: 0 to 64 threads are accepted", s)
	case s.Execute > 1 || s.Checkpoint > 1:
		return fmt.Errorf("stages %+v: execute and checkpoint have at most one thread, since entries are in order", s)
	case !slices.Contains([]string{CheckAll, CheckPrimary}, r.Check):
		return fmt.Errorf("check %q: all and primary are accepted", r.Check)
	case !slices.Contains(auth.Schemes, r.Auth):
		return fmt.Errorf("auth %q: %v are accepted", r.Auth, auth.Schemes)
	case !slices.Contains(store.Kinds, r.Execution):
		return fmt.Errorf("execution %q: %v are accepted", r.Execution, store.Kinds)
	case !finite.Is(r.Quota) || r.Quota != 0 && r.Quota < leastQuota:
		return fmt.Errorf("quota %g: 0, and from %g on, are accepted", r.Quota, leastQuota)
	case !finite.Is(r.Bandwidth) || r.Bandwidth < 0:
		return fmt.Errorf("bandwidth %g: 0, and what is finite above it, is accepted", r.Bandwidth)
	case r.Processors < 0:
		return fmt.Errorf("processors %d: 0 and above are accepted", r.Processors)
	case r.Delay < 0:
		return fmt.Errorf("delay %s: a time from 0 on is accepted", r.Delay)
	}
	for _, d := range []struct {
		key  string
		time time.Duration
	}{{"linger", r.Linger}, {"retry", r.Retry}, {"fast", r.Fast}} {
		if d.time <= 0 {
			return fmt.Errorf("%s %s: a time above 0 is accepted", d.key, d.time)
		}
	}
	if err := r.Load.Validate(); err != nil {
		return err
	}
	if size := r.Requests() * r.Load.Size(); size > largestBatch {
		return fmt.Errorf("batch %d: transactions of %d bytes together at most are accepted, these may have %d", r.Batch, largestBatch, size)
	}
	return nil
}
