package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qioi/qioi/ledger/internal/finite"
	"github.com/qioi/qioi/ledger/internal/process"
	"github.com/qioi/qioi/ledger/internal/resultfile"
)

// ErrNothingCommitted ends a run without a single valid commit.
var ErrNothingCommitted = errors.New("nothing was committed")

// leastRate is a transaction in a quarter of an hour. Of rates near 0 the times that many workers wait for are beyond what a
// Duration can say.
const leastRate = 1e-3

type options struct {
	network, channel, chaincode, workload string
	peers                                 []string
	rate                                  float64
	clients, maxInFlight                  int
	duration, warmup, cooldown            time.Duration
	timeout, progress                     time.Duration
	knobs                                 workloadOptions
	json, timeseries, record              string
	breakdown, queries                    bool
	burst                                 int
	fresh, consistency                    string
}

// Command is `qioi-ledger load`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "load --network DIR/network.json (--rate R | --clients N)",
		Short: "Drive a ledger through its peers' gateways, or a database, and measure",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			net, err := readNetwork(o.network)
			if err != nil {
				return err
			}
			gap, err := net.gap()
			if err != nil {
				return err
			}
			process.Tune(net.processors(runtime.NumCPU()), gap) // before signals are caught: a program that begins anew would not know of them
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			// A second signal ends the process at once.
			context.AfterFunc(ctx, stop)
			return o.execute(ctx, net, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	o.systemFlags(f)
	f.StringVar(&o.workload, "workload", "", workloadHelp())
	finite.Var(f, &o.rate, "rate", 0, "open loop: transactions per second")
	f.IntVar(&o.clients, "clients", 0, "closed loop: clients that each wait for their last transaction")
	f.IntVar(&o.maxInFlight, "max-in-flight", 2000, "open loop: transactions under way at once")
	f.DurationVar(&o.duration, "duration", 30*time.Second, "measured time, after the warm-up")
	f.DurationVar(&o.warmup, "warmup", 3*time.Second, "time before the measurement")
	f.DurationVar(&o.cooldown, "cooldown", 0, "time after the measurement in which the load goes on, so that its last blocks fill too")
	f.IntVar(&o.burst, "burst", 1, "open loop: so many are due at once, at the same rate")
	f.StringVar(&o.fresh, "fresh", "", "do each operation on a connection, or from a process, of its own: connection or process (default: all share connections)")
	f.IntVar(&o.knobs.accounts, "accounts", 10_000, "accounts or keys to choose from")
	f.IntVar(&o.knobs.hotKeys, "hot-keys", 0, "the first so many accounts or keys are hot (0: all alike)")
	finite.Var(f, &o.knobs.hotShare, "hot-share", 0.9, "share of the choices that fall on hot ones")
	finite.Var(f, &o.knobs.zipf, "zipf", 0, "choose accounts or keys by Zipf's law with this exponent, from 0 to below 1 (0: all alike)")
	finite.Var(f, &o.knobs.readShare, "read-share", 0, "kv insert: share of the operations that read a key which is there")
	f.IntVar(&o.knobs.valueSize, "value-size", 1024, "bytes of a kv value")
	f.Uint64Var(&o.knobs.seed, "seed", 1, "seed of the random choices")
	f.StringVar(&o.json, "json", "", "write the result as JSON to this file (-: to stdout, instead of text)")
	f.StringVar(&o.timeseries, "timeseries", "", "write a CSV row per second to this file")
	f.StringVar(&o.record, "record", "", "write the id and block of each committed transaction to this file")
	f.BoolVar(&o.breakdown, "breakdown", false, "ask the nodes' operations endpoints where the time went: endorse, order, validate, flush")
	f.DurationVar(&o.progress, "progress", time.Second, "interval of progress lines on stderr (0: none)")
	cmd.AddCommand(onceCommand())
	return cmd
}

// systemFlags say what is driven, and how.
func (o *options) systemFlags(f *pflag.FlagSet) {
	f.StringVar(&o.network, "network", "", "`FILE` that init or qioi lab up wrote, network.json")
	f.StringVar(&o.channel, "channel", "", "channel (default: the network's first)")
	f.StringVar(&o.chaincode, "chaincode", "", "contract: "+strings.Join(slices.Sorted(maps.Keys(workloads)), ", ")+" (default: smallbank; a database has kv)")
	f.StringSliceVar(&o.peers, "peers", nil, "gateway peers or database nodes, in turn (default: all)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "bound for one transaction")
	f.BoolVar(&o.queries, "queries", false, "have reads answered by one peer's state: they are not ordered then")
	f.StringVar(&o.consistency, "consistency", "quorum", "cassandra: level of reads: one, quorum, all or serial")
}

func (o *options) check() error {
	switch {
	case o.network == "":
		return errors.New("--network is missing: the network.json that `qioi-ledger init` wrote is accepted")
	case (o.rate > 0) == (o.clients > 0):
		return errors.New("exactly one of --rate (open loop) and --clients (closed loop) is needed, above 0")
	case o.rate != 0 && (o.rate < leastRate || o.rate > 1e6):
		return fmt.Errorf("--rate %g: %g to 1000000 is accepted", o.rate, leastRate)
	case o.clients < 0 || o.clients > 100_000:
		return fmt.Errorf("--clients %d: 1 to 100000 is accepted", o.clients)
	case o.maxInFlight < 1 || o.maxInFlight > 100_000:
		return fmt.Errorf("--max-in-flight %d: 1 to 100000 is accepted", o.maxInFlight)
	case o.duration <= 0 || o.warmup < 0 || o.cooldown < 0 || o.timeout <= 0:
		return errors.New("--duration and --timeout must be above 0, --warmup and --cooldown at least 0")
	case o.knobs.accounts < 2:
		return fmt.Errorf("--accounts %d: at least 2 are needed", o.knobs.accounts)
	case o.burst < 1 || o.burst > 1 && o.clients > 0:
		return fmt.Errorf("--burst %d: at least 1 is accepted, and of an open loop only", o.burst)
	case o.fresh != "" && o.fresh != freshConnection && o.fresh != freshProcess:
		return fmt.Errorf("--fresh %q: connection and process are accepted", o.fresh)
	case consistencies[o.consistency] == 0:
		return fmt.Errorf("--consistency %q: one, quorum, all and serial are accepted", o.consistency)
	case o.knobs.zipf < 0 || o.knobs.zipf >= 1 || o.knobs.zipf > 0 && o.knobs.hotKeys > 0:
		return errors.New("--zipf must be from 0 to below 1, and is accepted without --hot-keys only")
	case o.knobs.readShare < 0 || o.knobs.readShare > 1:
		return fmt.Errorf("--read-share %g: 0 to 1 is accepted", o.knobs.readShare)
	case o.knobs.hotKeys < 0 || o.knobs.hotShare < 0 || o.knobs.hotShare > 1:
		return errors.New("--hot-keys must be at least 0, --hot-share from 0 to 1")
	case o.knobs.valueSize < 1 || o.knobs.valueSize > 10<<20:
		return fmt.Errorf("--value-size %d: 1 to %d bytes are accepted", o.knobs.valueSize, 10<<20)
	}
	return nil
}

func (o *options) plan() plan {
	p := plan{rate: o.rate, burst: o.burst, workers: o.clients, warmup: o.warmup, duration: o.duration, cooldown: o.cooldown}
	if o.rate > 0 {
		p.workers = o.maxInFlight
	}
	return p
}

func (o *options) execute(ctx context.Context, net *description, stdout io.Writer) (err error) {
	process.SpareCollections(ctx)
	if err := resultfile.Check(o.json, o.timeseries, o.record); err != nil {
		return err
	}
	r, about, err := o.build(net)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.target.connect(ctx); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	// An older record stays until this run has reached the network.
	if err := r.journal.open(o.record); err != nil {
		return err
	}
	found := r.measure(ctx)
	found.About = about
	err = o.report(found, stdout)
	if found.Committed == 0 {
		err = errors.Join(err, ErrNothingCommitted)
	}
	return err
}

// build makes the parts of a run, and says what it is about.
func (o *options) build(net *description) (_ *run, about About, err error) {
	if o.chaincode == "" {
		o.chaincode = defaultChaincode(net.system())
	}
	about = About{System: net.system(), Chaincode: o.chaincode, Seed: o.knobs.seed}
	if about.Channel, err = net.channel(o.channel); err != nil {
		return nil, about, err
	}
	r := &run{plan: o.plan(), timeout: o.timeout, progress: newProgress(os.Stderr, o.progress)}
	o.knobs.preload = net.system() != systemLedger
	if about.Workload, r.work, err = findWorkload(o.chaincode, o.workload, o.knobs); err != nil {
		return nil, about, err
	}
	if err = o.checkUnique(r.work, net.system()); err != nil {
		return nil, about, err
	}
	if o.breakdown {
		if net.system() != systemLedger {
			return nil, about, fmt.Errorf("--breakdown asks a ledger's nodes, and %s has none", net.system())
		}
		r.nodes = newObserver(net, about.Channel)
	}
	open, peers, err := o.opening(net, about.Channel)
	if err != nil {
		return nil, about, err
	}
	about.Peers = peers
	if r.plan.rate > 0 && net.WireGap == "" { // else no transaction is due at a time, or each waits for the next beat anyway
		if r.alarm, err = process.NewAlarm(); err != nil {
			return nil, about, err
		}
	}
	switch o.fresh {
	case freshConnection:
		r.fresh = open
	case freshProcess:
		r.fresh = func(i int) (target, error) { return spawned{i, o}, nil }
	}
	whole, err := open(everyOne)
	if err != nil {
		return nil, about, errors.Join(err, r.close())
	}
	r.target = whole
	return r, about, nil
}

func defaultChaincode(system string) string {
	if system == systemLedger {
		return "smallbank"
	}
	return "kv"
}

// report has every output tried, whichever fails: what was measured is not measured again.
func (o *options) report(found *Result, stdout io.Writer) error {
	return errors.Join(
		resultfile.Tell(found, o.json, stdout),
		resultfile.Write(o.timeseries, func(w io.Writer) error { return writeSeries(w, found.Series) }),
	)
}
