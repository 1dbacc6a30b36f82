package bftbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/clients"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/bftbench/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// Options are how a run is measured.
type Options struct {
	InProcess bool // InProcess has all replicas in this process; then CPU is not theirs alone.
	Warmup    time.Duration
	Duration  time.Duration
	Profiles  string // Profiles is the folder for profiles of each replica's measured time; "": none are made.
	// Metrics is where the first replica serves metrics, as host:port; the others at the next ports. "": nowhere.
	Metrics string
	// Breakdown has the result tell where the time went, by stage.
	Breakdown bool
}

// validate says what is wrong with the options.
func (o Options) validate() error {
	switch {
	case o.Warmup < 0:
		return fmt.Errorf("warmup %s: a time from 0 on is accepted", o.Warmup)
	case o.Duration <= 0:
		return fmt.Errorf("duration %s: a time above 0 is accepted", o.Duration)
	}
	return nil
}

// ErrNothing ends a run without a single transaction.
var ErrNothing = errors.New("no transaction was ordered")

// errCertificates is why some runs are refused.
var errCertificates = errors.New("protocol and failed: that clients make certificates where a replica has failed is simulated only")

// Measure starts replicas and clients, and tells what they did.
func Measure(ctx context.Context, run plan.Run, o Options) (_ *Result, err error) {
	if err := errors.Join(run.Validate(), o.validate()); err != nil {
		return nil, err
	}
	p, err := protocol.Find(run)
	if err != nil {
		return nil, err
	}
	if p.Certify != nil && run.Failed > 0 {
		return nil, errCertificates
	}
	if o.InProcess && (o.Profiles != "" || o.Metrics != "" || run.Processors > 0 || run.Quota > 0) {
		return nil, errInside
	}
	keys, err := auth.NewKeys(run.Auth, run.Replicas, 1)
	if err != nil {
		return nil, err
	}
	floor, err := floorOf(run, keys, o.InProcess)
	if err != nil {
		return nil, err
	}
	s := &session{run: run, keys: keys, inProcess: o.InProcess, metrics: o.Metrics, breakdown: o.Breakdown}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.start(ctx); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	found, err := s.measure(ctx, o)
	if err != nil {
		return nil, err
	}
	found.Floor = floor
	if floor.Throughput > 0 {
		found.Floor.Part = found.Throughput / floor.Throughput
	}
	return found, nil
}

// session is the parts of a run.
type session struct {
	run       plan.Run
	keys      auth.Keys
	inProcess bool
	folder    string
	groups    *groups
	members   []member
	machine   *clients.Machine

	metrics   string
	breakdown bool
}

func (s *session) start(ctx context.Context) (err error) {
	if s.folder, err = os.MkdirTemp("", "qioi-bft-bench-"); err != nil {
		return err
	}
	if s.groups, err = newGroups(s.run.Quota); err != nil {
		return err
	}
	certificate, err := link.NewCertificate()
	if err != nil {
		return err
	}
	addresses := map[bft.ID]string{}
	for i := range s.run.Alive() {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := bft.ID(i + 1)
		cfg := replica.Config{Run: s.run, ID: id, Keys: s.keys, TLS: certificate, Folder: filepath.Join(s.folder, fmt.Sprint(id))}
		if err := os.Mkdir(cfg.Folder, 0o700); err != nil {
			return err
		}
		m, err := s.startOne(ctx, cfg)
		if err != nil {
			return err
		}
		s.members = append(s.members, m)
		addresses[id] = m.Address()
	}
	for _, m := range s.members {
		if err := m.Connect(addresses); err != nil {
			return err
		}
	}
	if s.machine, err = clients.New(s.run, s.keys, 0); err != nil {
		return err
	}
	_, dialling, err := certificate.Configs()
	if err != nil {
		return err
	}
	if !s.run.TLS {
		dialling = nil
	}
	return s.machine.Connect(addresses, dialling)
}

func (s *session) startOne(ctx context.Context, cfg replica.Config) (member, error) {
	if s.inProcess {
		return startInside(cfg)
	}
	metrics, err := at(s.metrics, int(cfg.ID)-1)
	if err != nil {
		return nil, err
	}
	return startOutside(ctx, cfg, s.groups, metrics)
}

// at is the address so many ports further; "": none.
func at(address string, further int) (string, error) {
	if address == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("metrics %q: host:port is accepted: %w", address, err)
	}
	first, err := strconv.ParseUint(port, 10, 16)
	if err != nil || first == 0 || first+uint64(further) > math.MaxUint16 {
		return "", fmt.Errorf("metrics %q: a port above 0 is accepted, and one more for each replica", address)
	}
	return net.JoinHostPort(host, strconv.FormatUint(first+uint64(further), 10)), nil
}

// stop ends what was started.
func (s *session) stop() error {
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.Stop())
	}
	if s.groups != nil {
		errs = append(errs, s.groups.remove())
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

func (s *session) measure(ctx context.Context, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return s.machine.Run(inner) })
	var found *Result
	group.Go(func() error {
		defer cancel()
		if err := sleep(inner, o.Warmup); err != nil {
			return err
		}
		if err := s.profile(o.Profiles); err != nil {
			return err
		}
		before, own, began := s.samples(), stage.Self(), time.Now()
		end := s.machine.Measure()
		if err := sleep(inner, o.Duration); err != nil {
			return err
		}
		seen, used, elapsed := end(), stage.Self(), time.Since(began)
		after := s.samples()
		if err := errors.Join(before.err, after.err); err != nil {
			return err
		}
		if o.Profiles != "" {
			for _, m := range s.members {
				if err := m.Profile(""); err != nil {
					return err
				}
			}
		}
		found = s.result(seen, elapsed)
		if seen.Done > 0 {
			found.Clients.CPU = 1e6 * (used.CPU - own.CPU) / float64(seen.Done)
			s.addReplicas(found, before, after)
		}
		return nil
	})
	if err := group.Wait(); err != nil && (found == nil || !errors.Is(err, context.Canceled)) {
		return nil, err
	}
	if found.Throughput == 0 { // said here: above, the clients' own end may come before it
		return nil, ErrNothing
	}
	return found, nil
}

// profile begins a CPU profile of each replica, where there is a folder for them.
func (s *session) profile(folder string) error {
	if folder == "" {
		return nil
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	for i, m := range s.members {
		if err := m.Profile(filepath.Join(folder, fmt.Sprintf("replica%d.pprof", i+1))); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

type samples struct {
	of  []replica.Sample
	err error
}

func (s *session) samples() (all samples) {
	for _, m := range s.members {
		one, err := m.Sample()
		all.of, all.err = append(all.of, one), errors.Join(all.err, err)
	}
	return all
}

// part is so much of what a stage has counted.
func part(s stage.Sample, of float64) stage.Sample {
	s.Busy, s.CPU, s.Waited = s.Busy*of, s.CPU*of, s.Waited*of
	s.Units = int64(math.Round(float64(s.Units) * of))
	return s
}

func (s *session) result(seen clients.Measured, elapsed time.Duration) *Result {
	h := seen.Latency
	at := func(p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1000 }
	tps := float64(seen.Done) / elapsed.Seconds()
	return &Result{
		Kind: "real", Run: s.run, Seconds: elapsed.Seconds(), Throughput: tps, Operations: tps * float64(s.run.Load.Operations),
		Latency: Latency{Mean: h.Mean() / 1000, P50: at(50), P95: at(95), P99: at(99)},
		Clients: Client{Counts: seen.Counts}, Stages: map[string]float64{},
	}
}

// addReplicas says what each replica used per transaction. Replicas are asked one after the other, before and after the
// clients' window, and under a quota they answer late. So what a replica has counted is of a time by its own clock, and
// only a part of it, as long as the window, is told.
func (s *session) addReplicas(found *Result, before, after samples) {
	counted := make([][]stage.Sample, len(s.members))
	for i := range s.members {
		a, b := after.of[i], before.of[i]
		seconds := a.At - b.At
		done := found.Throughput * seconds
		one := Replica{
			ID: bft.ID(i + 1), CPU: 1e6 * (a.Process.CPU - b.Process.CPU) / done, System: 1e6 * (a.Process.System - b.Process.System) / done,
			Memory: a.Process.Memory, Dropped: a.Dropped - b.Dropped, Refused: a.Refused - b.Refused,
		}
		rest := one.CPU
		for j := range a.Stages {
			d := a.Stages[j].Since(b.Stages[j])
			st := Stage{Name: d.Name, Threads: d.Threads, Saturation: d.Saturation(seconds), CPU: 1e6 * d.CPU / done, Queue: d.Queue(seconds)}
			counted[i], one.Stages = append(counted[i], part(d, found.Seconds/seconds)), append(one.Stages, st)
			found.Stages[st.Name] += st.CPU
			rest -= st.CPU
		}
		// What is left is the runtime's: reading from connections, waking goroutines, collecting garbage.
		if !s.inProcess {
			found.Stages["runtime"] += rest
			found.CPU += one.CPU
		}
		found.Replicas = append(found.Replicas, one)
	}
	if s.breakdown {
		found.Breakdown = stage.Breakdown(counted, found.Seconds)
	}
	if s.inProcess {
		found.CPU = found.Clients.CPU // one process has it all
		found.Clients.CPU = 0
	}
}
