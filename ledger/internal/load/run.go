package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/process"
)

const (
	// setupWorkers is how many accounts are under way at once before a run.
	setupWorkers = 64
	// setupPatience covers a network that is still finding its leader.
	setupPatience = 15 * time.Second
	setupPause    = 200 * time.Millisecond
	// failurePause keeps a closed loop from spinning on a network that refuses.
	failurePause = 20 * time.Millisecond
)

// run is one load run: its parts, wired.
type run struct {
	plan     plan
	timeout  time.Duration // per transaction, all stages
	target   target
	fresh    opening // nil: all operations share the target
	work     workload
	journal  journal
	progress *progress
	nodes    *observer      // nil: the run has no breakdown
	alarm    *process.Alarm // nil: no transaction is due at a time, or a millisecond does not matter
}

// prepare commits what the workload needs. What an earlier run left there is as good.
func (r *run) prepare(ctx context.Context) error {
	if err := r.target.setup(ctx); err != nil {
		return err
	}
	calls := r.work.setup()
	if len(calls) == 0 {
		return nil
	}
	r.progress.say(fmt.Sprintf("setting up: %d transactions", len(calls)))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(setupWorkers, len(calls)) {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(calls)); i = next.Add(1) - 1 {
				if err := r.prepareOne(ctx, int(i), calls[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// prepareOne repeats what may succeed later, through the next peer.
func (r *run) prepareOne(ctx context.Context, i int, c call) error {
	for began, try := time.Now(), 0; ; try++ {
		limited, cancel := context.WithTimeout(ctx, r.timeout)
		o := r.target.do(limited, i+try, c)
		cancel()
		switch {
		case o.failedAt == "" || alreadyThere(o):
			return nil
		case !mayPass(o) || time.Since(began) > setupPatience:
			return fmt.Errorf("setting up the workload: %s of %q failed: %s %s", o.failedAt, c[0], o.code, o.detail)
		case !sleep(ctx, setupPause):
			return ctx.Err()
		}
	}
}

// mayPass reports whether another try may succeed: the network was not ready or was busy, or
// two transactions were in conflict.
func mayPass(o outcome) bool {
	switch o.code {
	case "UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED":
		return true
	case "ERROR_1000", "ERROR_1001", "ERROR_1200": // Cassandra's: too few replicas, too much to do, too late
		return true
	default:
		return o.failedAt == stageCommit
	}
}

// measure sends the workload and waits for what is under way. It returns what it
// has when ctx ends early.
func (r *run) measure(ctx context.Context) *Result {
	p := &pacer{plan: r.plan, start: time.Now()}
	r.progress.say("sending since " + p.start.UTC().Format(time.RFC3339Nano))
	rec := newRecorder(p.start, r.plan)
	cpu := watchCPU(ctx, p.windowStart())
	stages := r.nodes.watch(ctx, p.windowStart())

	reporting, stopReporting := context.WithCancel(context.Background())
	var background errgroup.Group
	background.Go(func() error {
		r.progress.follow(reporting, p, rec)
		return nil
	})
	if r.alarm != nil {
		background.Go(func() error {
			p.keepTime(reporting, r.alarm)
			return nil
		})
	}
	cut := make(chan struct{})
	uninterrupted := context.AfterFunc(ctx, func() {
		rec.cut(time.Now()) // the window ends; transactions under way are still waited for
		close(cut)
	})
	// Workers return no errors: a failed transaction is a result.
	var workers errgroup.Group
	for range r.plan.workers {
		workers.Go(func() error {
			r.worker(ctx, p, rec)
			return nil
		})
	}
	_ = workers.Wait()
	ended := time.Now()
	interrupted := !uninterrupted()
	if interrupted {
		<-cut
	}
	stopReporting()
	_ = background.Wait()
	found := newResult(p, rec, cpu(), ended, interrupted)
	found.Breakdown = stages()
	return found
}

func (r *run) worker(ctx context.Context, p *pacer, rec *recorder) {
	for {
		i, due, ok := p.next(ctx)
		if !ok {
			return
		}
		rec.send(due)
		// An interrupted run still waits for what it sent.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
		c := r.work.call(i)
		o := r.transact(limited, i, c)
		cancel()
		rec.finish(o, c, due, time.Now())
		switch {
		case o.failedAt == "":
			r.journal.committed(o)
		case o.failedAt != stageCommit && p.rate == 0:
			sleep(ctx, failurePause)
		}
	}
}

// alreadyThere recognises what an earlier run has made.
func alreadyThere(o outcome) bool {
	return o.code == codeExists || o.failedAt == stageEndorse && strings.Contains(o.detail, record.ErrExists.Error())
}

func (r *run) close() error {
	var errs []error
	if r.target != nil {
		errs = append(errs, r.target.close())
	}
	if r.alarm != nil {
		errs = append(errs, r.alarm.Close())
	}
	return errors.Join(append(errs, r.journal.close())...)
}

// cpuTime is what this process, and those that it started for one operation each, have used so far.
func cpuTime() (user, sys time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if syscall.Getrusage(who, &usage) == nil {
			user += time.Duration(usage.Utime.Nano())
			sys += time.Duration(usage.Stime.Nano())
		}
	}
	return user, sys
}

// watchCPU returns a function that tells the CPU time used since from.
func watchCPU(ctx context.Context, from time.Time) func() CPU {
	type sample struct{ user, sys time.Duration }
	base := make(chan sample, 1)
	go func() {
		sleep(ctx, time.Until(from))
		user, sys := cpuTime()
		base <- sample{user, sys}
	}()
	return func() CPU {
		user, sys := cpuTime()
		b := <-base
		return CPU{UserSeconds: (user - b.user).Seconds(), SysSeconds: (sys - b.sys).Seconds()}
	}
}
