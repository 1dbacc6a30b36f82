package bftbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
	"github.com/qioi/qioi/ledger/internal/finite"
	"github.com/qioi/qioi/ledger/internal/resultfile"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// Why some runs are refused.
var (
	errProcessors = errors.New("processors: threads of Go code are real processes' (--cores is a simulated replica's)")
	errTLS        = errors.New("tls: what it costs is not measured, so that it is of real processes only")
)

// Simulate measures what each step costs on this machine, as far as costs has it not, and runs a plan under a virtual clock.
func Simulate(ctx context.Context, run plan.Run, o simulate.Options, costs *Costs) (*Result, error) {
	if err := errors.Join(run.Validate(), o.Validate()); err != nil {
		return nil, err
	}
	if _, err := protocol.Find(run); err != nil {
		return nil, err
	}
	if run.Processors > 0 {
		return nil, errProcessors
	}
	if run.TLS {
		return nil, errTLS
	}
	cost, err := costs.of(ctx, run)
	if err != nil {
		return nil, err
	}
	if run.Quota > 0 {
		o.Cores, o.Quota, o.Period = max(1, int(run.Quota+0.999)), run.Quota, period*time.Microsecond
	}
	found, err := simulate.Run(ctx, run, o, cost)
	if err != nil {
		return nil, err
	}
	machines := o.With(run)
	tps := float64(found.Transactions) / found.Seconds
	r := &Result{
		Kind: "simulated", Run: run, Seconds: found.Seconds, Throughput: tps, Operations: tps * float64(run.Load.Operations),
		Latency: Latency{Mean: found.Mean(), P50: found.Percentile(0.5), P95: found.Percentile(0.95), P99: found.Percentile(0.99)},
		Stages:  map[string]float64{}, Costs: &cost, Machines: &machines,
		Floor: Floor{VerifyMicroseconds: float64(cost.Verify) / 1000, Cores: float64(verifiers(run)) * cmp.Or(run.Quota, float64(o.Cores)) * o.Speed},
	}
	if run.Auth != auth.None {
		r.Floor.Throughput = r.Floor.bound(run)
		r.Floor.Part = tps / r.Floor.Throughput
	}
	counted := make([][]stage.Sample, len(found.Replicas))
	for i, one := range found.Replicas {
		replica := Replica{ID: one.ID}
		for _, c := range one.Stages {
			s := Stage{Name: c.Name, Threads: c.Threads, Saturation: c.Saturation(found.Seconds), CPU: 1e6 * c.CPU / float64(found.Transactions), Queue: c.Queue(found.Seconds)}
			replica.Stages = append(replica.Stages, s)
			replica.CPU += s.CPU
			r.Stages[c.Name] += s.CPU
		}
		counted[i] = one.Stages
		r.CPU += replica.CPU
		r.Replicas = append(r.Replicas, replica)
	}
	r.Breakdown = stage.Breakdown(counted, found.Seconds)
	return r, nil
}

func simulateCommand() *cobra.Command {
	run, o := plan.Default(), simulate.Default()
	var stages, json, book string
	var told bool
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "The same under a virtual clock, on machines of any size",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if run.Stages, err = parseStages(stages, run.Stages); err != nil {
				return err
			}
			if err := resultfile.Check(json, book); err != nil {
				return err
			}
			costs, err := ReadCosts(book)
			if err != nil {
				return err
			}
			ctx, stop := untilTold(cmd.Context())
			defer stop()
			runtime.GC() // a collection during the next measurement would count as its CPU time
			found, err := Simulate(ctx, run, o, costs)
			if err != nil {
				return err
			}
			if !told {
				found.Breakdown = nil
			}
			return resultfile.Tell(found, json, cmd.OutOrStdout())
		},
	}
	flags(cmd.Flags(), &run)
	f := cmd.Flags()
	f.Lookup("bandwidth").Usage = fmt.Sprintf("of what a replica sends, in bytes per second (0: %g)", o.Bandwidth)
	f.StringVar(&stages, "stages", "", "threads of the stages, as in 1E2B; 0: the worker does it; those left out stay")
	f.IntVar(&o.Cores, "cores", o.Cores, "processors of each replica; a quota goes before it")
	finite.Var(f, &o.Speed, "speed", o.Speed, "of a processor, where this machine's is 1")
	f.DurationVar(&o.Latency, "latency", o.Latency, "of each link")
	f.IntVar(&o.Machines, "machines", o.Machines, "on how many the clients are")
	f.IntVar(&o.Batches, "batches", o.Batches, "that are measured at least")
	f.BoolVar(&told, "breakdown", false, "tell by stage where the time went, as for real")
	f.StringVar(&book, "costs", "", "take what steps cost from this file, and keep there what is measured for want of it: runs that are compared have the same")
	f.StringVar(&json, "json", "", "write the result as JSON to this file (-: to stdout, instead of text)")
	return cmd
}
