package bftbench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/bftbench/store"
	"github.com/qioi/qioi/ledger/internal/finite"
	"github.com/qioi/qioi/ledger/internal/resultfile"
)

// Command is `qioi-ledger bft-bench`.
func Command() *cobra.Command {
	run, options := plan.Default(), Options{Warmup: 3 * time.Second, Duration: 10 * time.Second}
	var stages, json string
	cmd := &cobra.Command{
		Use:   "bft-bench",
		Short: "Measure a protocol's replicas without a ledger around them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if run.Stages, err = parseStages(stages, run.Stages); err != nil {
				return err
			}
			if err := resultfile.Check(json); err != nil {
				return err
			}
			ctx, stop := untilTold(cmd.Context())
			defer stop()
			found, err := Measure(ctx, run, options)
			if err != nil {
				return err
			}
			return resultfile.Tell(found, json, cmd.OutOrStdout())
		},
	}
	flags(cmd.Flags(), &run)
	f := cmd.Flags()
	f.StringVar(&stages, "stages", "", "threads of the stages, as in 1E2B or 3I2B1E1C2O; 0: the worker does it; those left out stay")
	f.DurationVar(&options.Warmup, "warmup", options.Warmup, "time before the measurement")
	f.DurationVar(&options.Duration, "duration", options.Duration, "measured time")
	f.BoolVar(&options.InProcess, "in-process", false, "all replicas in this process")
	f.StringVar(&options.Profiles, "profiles", "", "write a profile of each replica's measured time into this folder: CPU, and what was allocated since it started")
	f.StringVar(&options.Metrics, "metrics", "", "serve each replica's metrics and profiles: the first one's at this host:port, the others' at the next ports")
	f.BoolVar(&options.Breakdown, "breakdown", false, "tell by stage where the time went: in its queue and at work, how saturated it is and how much waits")
	f.StringVar(&json, "json", "", "write the result as JSON to this file (-: to stdout, instead of text)")
	cmd.AddCommand(replicaCommand(), busyCommand(), simulateCommand())
	return cmd
}

// ofTerminal are the signals that a terminal sends to all of its processes.
var ofTerminal = []os.Signal{syscall.SIGINT, syscall.SIGHUP}

// ending are the signals that end a run, files and processes included. What runs under nohup outlives its terminal.
func ending() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
}

// untilTold is a context that ends with the first such signal; another interrupt ends the process at once. A terminal that
// is closed may say so twice, which is no such haste.
func untilTold(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, ending()...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	return ctx, stop
}

func flags(f *pflag.FlagSet, run *plan.Run) {
	f.StringVar(&run.Protocol, "protocol", run.Protocol, strings.Join(protocol.Names(), ", "))
	f.IntVar(&run.Replicas, "replicas", run.Replicas, "number of replicas")
	f.IntVar(&run.Failed, "failed", 0, "backups that never start")
	f.IntVar(&run.Batch, "batch", run.Batch, "transactions of a batch")
	f.DurationVar(&run.Linger, "linger", run.Linger, "how long a batch waits to be full")
	f.IntVar(&run.Checkpoint, "checkpoint", run.Checkpoint, "transactions from one checkpoint to the next")
	f.IntVar(&run.Overlap, "overlap", run.Overlap, "batches that the primary has under way at once (1: in order); of Zyzzyva the default alone")
	f.StringVar(&run.Check, "check", run.Check, "who verifies the signatures of clients: all replicas, or the primary")
	f.StringVar(&run.Auth, "auth", run.Auth, strings.Join(auth.Schemes, ", "))
	f.BoolVar(&run.TLS, "tls", false, "connections over TLS")
	f.StringVar(&run.Execution, "execution", run.Execution, strings.Join(store.Kinds, ", "))
	f.IntVar(&run.Load.Records, "records", run.Load.Records, "keys of the table")
	finite.Var(f, &run.Load.Skew, "skew", run.Load.Skew, "exponent of the Zipfian choice of keys, from 0 to below 1")
	f.IntVar(&run.Load.Operations, "operations", run.Load.Operations, "writes of a transaction")
	f.IntVar(&run.Load.Burst, "burst", run.Load.Burst, "transactions that a client sends as one, under one signature")
	f.IntVar(&run.Load.Value, "value-size", run.Load.Value, "bytes that a write writes")
	f.IntVar(&run.Load.Padding, "padding", 0, "bytes that a transaction carries besides")
	f.IntVar(&run.Clients, "clients", run.Clients, "clients, each with one transaction under way")
	f.DurationVar(&run.Retry, "retry", run.Retry, "after which a client turns to all replicas")
	f.DurationVar(&run.Fast, "fast", run.Fast, "how long a client of Zyzzyva waits for the last replicas, before it makes a certificate")
	f.DurationVar(&run.Delay, "delay", 0, "what every message takes longer")
	finite.Var(f, &run.Bandwidth, "bandwidth", 0, "of what a replica sends, in bytes per second (0: unbounded)")
	finite.Var(f, &run.Quota, "quota", 0, "CPU of each replica, in cores, at least 0.1 (0: unbounded)")
	f.IntVar(&run.Processors, "processors", 0, "threads of Go code of each replica (0: as many as the quota or a fair part of the host has cores)")
	f.Uint64Var(&run.Seed, "seed", run.Seed, "seed of the random choices")
}

// parseStages reads 1E2B over what is the default.
func parseStages(text string, s plan.Stages) (plan.Stages, error) {
	at := map[byte]*int{'I': &s.Input, 'B': &s.Batch, 'E': &s.Execute, 'C': &s.Checkpoint, 'O': &s.Output}
	number, digits := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			number, digits = 10*number+int(c-'0'), digits+1
		case at[c] != nil && digits > 0 && digits < 4:
			*at[c] = number
			number, digits = 0, 0
		default:
			return s, fmt.Errorf("stages %q: numbers before letters of I, B, E, C and O are accepted, as in 1E2B", text)
		}
	}
	if digits > 0 {
		return s, fmt.Errorf("stages %q: a letter is missing at the end", text)
	}
	return s, nil
}

// replicaCommand is what a run starts for each replica.
func replicaCommand() *cobra.Command {
	var metrics string
	cmd := &cobra.Command{
		Use:    "replica",
		Short:  "Be one replica of a run, which speaks through standard input and output",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// What the terminal sends is for who has started it: that ends this one.
			signal.Ignore(ofTerminal...)
			return serveReplica(context.WithoutCancel(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout(), metrics)
		},
	}
	cmd.Flags().StringVar(&metrics, "metrics", "", "serve metrics and profiles at this host:port")
	return cmd
}
