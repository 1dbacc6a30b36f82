package bftbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/clients"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
	"github.com/qioi/qioi/ledger/internal/bftbench/store"
	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// TestMain lets this test's own program be the replicas of a run with processes.
func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == "bft-bench" {
		waitAtGate()
		cmd := Command()
		cmd.SetArgs(os.Args[2:])
		if cmd.Execute() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func small() plan.Run {
	run := plan.Default()
	run.Load.Records, run.Batch, run.Checkpoint, run.Clients = 1000, 10, 100, 60
	return run
}

var brief = Options{InProcess: true, Warmup: 50 * time.Millisecond, Duration: 200 * time.Millisecond}

// measured has a run last as long as the host needs to get something ordered.
func measured(t *testing.T, run plan.Run, o Options) *Result {
	t.Helper()
	for {
		found, err := Measure(context.Background(), run, o)
		if errors.Is(err, ErrNothing) && o.Duration < time.Minute {
			o.Duration *= 5
			continue
		}
		require.NoError(t, err)
		return found
	}
}

func TestARunWithoutATransactionHasNoResult(t *testing.T) {
	_, err := Measure(context.Background(), small(), Options{InProcess: true, Duration: 1})
	require.ErrorIs(t, err, ErrNothing)
}

// sound asserts what holds for every run without faults.
func sound(t *testing.T, found *Result) {
	assert.Positive(t, found.Throughput)
	assert.Positive(t, found.Latency.P50)
	assert.LessOrEqual(t, found.Latency.P50, found.Latency.P99)
	assert.Zero(t, found.Clients.Unequal, "replies contradict each other")
	assert.Zero(t, found.Clients.Forged)
	for _, r := range found.Replicas {
		assert.Zero(t, r.Refused, "replica %d", r.ID)
	}
}

func TestReplicasAnswerInEverySetting(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	settings := map[string]func(*plan.Run){
		"the worker does everything": func(r *plan.Run) { r.Stages = plan.Stages{} },
		"no input threads":           func(r *plan.Run) { r.Stages.Input = 0 },
		"no output threads":          func(r *plan.Run) { r.Stages.Output = 0 },
		"none":                       func(r *plan.Run) { r.Auth = auth.None },
		"ed25519 over TLS":           func(r *plan.Run) { r.Auth, r.TLS = auth.ED25519, true },
		"rsa":                        func(r *plan.Run) { r.Auth, r.Clients = auth.RSA, 20 },
		"sqlite":                     func(r *plan.Run) { r.Execution, r.Load.Operations = store.SQLite, 3 },
		"a failed backup":            func(r *plan.Run) { r.Failed = 1 },
		"seven replicas in order":    func(r *plan.Run) { r.Replicas, r.Overlap = 7, 1 },
		"slow links":                 func(r *plan.Run) { r.Delay, r.Bandwidth = time.Millisecond, 5e6 },
		"zyzzyva":                    func(r *plan.Run) { r.Protocol = "zyzzyva" },
		"no consensus":               func(r *plan.Run) { r.Protocol, r.Execution = "none", store.None },
		"bursts":                     func(r *plan.Run) { r.Load.Burst = 5 },
		"only the primary checks":    func(r *plan.Run) { r.Check = plan.CheckPrimary },
	}
	for name, change := range settings {
		t.Run(name, func(t *testing.T) {
			run := small()
			change(&run)
			sound(t, measured(t, run, brief))
		})
	}
}

func TestProcessesHaveTheirOwnCPU(t *testing.T) {
	run := small()
	options := brief
	options.InProcess, options.Profiles = false, t.TempDir()
	found := measured(t, run, options)
	sound(t, found)
	require.Len(t, found.Replicas, 4)
	for _, r := range found.Replicas {
		assert.Positive(t, r.CPU)
		assert.Len(t, r.Stages, 6)
		for _, kind := range []string{cpuProfile, allocProfile} {
			profile, err := os.ReadFile(filepath.Join(options.Profiles, fmt.Sprintf("replica%d%s", r.ID, kind)))
			require.NoError(t, err)
			assert.NotEmpty(t, profile)
		}
	}
	assert.Positive(t, found.Stages["batch"], "clients' signatures are verified there")
	assert.Positive(t, found.Floor.Throughput)
	var text, document bytes.Buffer
	require.NoError(t, found.WriteText(&text))
	require.NoError(t, found.WriteJSON(&document))
	assert.Contains(t, text.String(), "saturation")
	assert.Contains(t, document.String(), `"throughput"`)
}

func TestRetriesAreToldWhereThereAreAny(t *testing.T) {
	for retries, told := range map[int64]string{0: "", 7: "retries             7 transactions sent to all replicas"} {
		var text bytes.Buffer
		found := Result{Clients: Client{Counts: clients.Counts{Retries: retries}}}
		require.NoError(t, found.WriteText(&text))
		assert.Contains(t, text.String(), told)
		assert.Equal(t, retries > 0, bytes.Contains(text.Bytes(), []byte("retries")))
	}
}

func TestReplicasOfOneProcessHaveNothingOfTheirOwn(t *testing.T) {
	for name, change := range map[string]func(*plan.Run, *Options){
		"profiles":   func(_ *plan.Run, o *Options) { o.Profiles = t.TempDir() },
		"metrics":    func(_ *plan.Run, o *Options) { o.Metrics = "127.0.0.1:9443" },
		"processors": func(r *plan.Run, _ *Options) { r.Processors = 1 },
		"quota":      func(r *plan.Run, _ *Options) { r.Quota = 0.4 },
	} {
		run, options := small(), brief
		change(&run, &options)
		_, err := Measure(context.Background(), run, options)
		require.ErrorIs(t, err, errInside, name)
	}
}

// TestProcessesServeTheirStagesAndThreads while they run, each at a port of its own.
func TestProcessesServeTheirStagesAndThreads(t *testing.T) {
	run := small()
	run.Processors = 3
	first := fmt.Sprint("127.0.0.1:", porttest.Take(t)) // below the ports of the Python tests
	options := Options{Warmup: time.Hour, Duration: time.Second, Metrics: first}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := Measure(ctx, run, options)
		ended <- err
	}()
	for further := range run.Replicas {
		address, err := at(first, further)
		require.NoError(t, err)
		var page string
		require.Eventually(t, func() bool {
			page = get("http://" + address + "/metrics")
			return strings.Contains(page, `qioi_bft_bench_stage_items_total{stage="execute"}`)
		}, time.Minute, 20*time.Millisecond)
		for _, name := range []string{"batch", "worker", "execute", "checkpoint", "output"} {
			assert.Contains(t, page, `qioi_bft_bench_stage_queue_length{stage="`+name+`"}`)
			assert.Contains(t, page, `qioi_bft_bench_stage_wait_seconds_total{stage="`+name+`"}`)
		}
		assert.Contains(t, page, `qioi_bft_bench_stage_queue_capacity{stage="batch"} 16384`)
		assert.Contains(t, page, `qioi_bft_bench_stage_queue_capacity{stage="output"} 32768`, "two threads have one each")
		assert.NotContains(t, page, `qioi_bft_bench_stage_queue_length{stage="input"}`)
		assert.Contains(t, page, "go_sched_gomaxprocs_threads 3")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func get(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	return string(page)
}

func TestPortsFollowTheFirst(t *testing.T) {
	for _, c := range []struct {
		first   string
		further int
		address string
	}{{"", 3, ""}, {"127.0.0.1:9443", 0, "127.0.0.1:9443"}, {"[::1]:9443", 2, "[::1]:9445"}, {":9443", 1, ":9444"}} {
		address, err := at(c.first, c.further)
		require.NoError(t, err)
		assert.Equal(t, c.address, address)
	}
	for _, wrong := range []string{"127.0.0.1", "127.0.0.1:0", "127.0.0.1:web", "127.0.0.1:65535"} {
		_, err := at(wrong, 1)
		assert.ErrorContains(t, err, "accepted", wrong)
	}
}

func TestStagesAreReadFromTheirShortForm(t *testing.T) {
	found, err := parseStages("1E0B", plan.Default().Stages)
	require.NoError(t, err)
	assert.Equal(t, plan.Stages{Input: 3, Batch: 0, Execute: 1, Checkpoint: 1, Output: 2}, found)
	for _, wrong := range []string{"E", "1X", "1E2", "1E 2B"} {
		_, err := parseStages(wrong, plan.Stages{})
		assert.Error(t, err, wrong)
	}
}

// TestAMistypedResultIsToldFirst: these would not begin to measure either.
func TestAMistypedResultIsToldFirst(t *testing.T) {
	for _, args := range [][]string{{"--json"}, {"simulate", "--json"}, {"simulate", "--costs"}} {
		cmd := Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append(args, "/nowhere/x", "--batch", "0"))
		require.ErrorContains(t, cmd.Execute(), "/nowhere/x")
	}
}

func TestARunOutOfBoundsIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none")) // whoever begins to measure says so
	for name, change := range map[string]func(*plan.Run){
		"replicas": func(r *plan.Run) { r.Replicas = 3 }, "failed": func(r *plan.Run) { r.Failed = 2 },
		"batch": func(r *plan.Run) { r.Batch = 0 }, "clients": func(r *plan.Run) { r.Clients = 0 },
		"execute": func(r *plan.Run) { r.Stages.Execute = 2 }, "check": func(r *plan.Run) { r.Check = "none" },
		"auth": func(r *plan.Run) { r.Auth = "md5" }, "execution": func(r *plan.Run) { r.Execution = "disk" },
		"skew": func(r *plan.Run) { r.Load.Skew = 2 }, "skew NaN": func(r *plan.Run) { r.Load.Skew = math.NaN() },
		"linger 0s: a time above 0": func(r *plan.Run) { r.Linger = 0 }, "retry -1s": func(r *plan.Run) { r.Retry = -time.Second },
		"fast 0s": func(r *plan.Run) { r.Fast = 0 }, "delay -1ns: a time from 0 on": func(r *plan.Run) { r.Delay = -1 },
		"bandwidth -1: 0, and what is finite above it": func(r *plan.Run) { r.Bandwidth = -1 },
		"bandwidth NaN": func(r *plan.Run) { r.Bandwidth = math.NaN() }, "bandwidth +Inf": func(r *plan.Run) { r.Bandwidth = math.Inf(1) },
		"processors -1: 0 and above": func(r *plan.Run) { r.Processors = -1 }, "checkpoint 0: 1 and above": func(r *plan.Run) { r.Checkpoint = 0 },
		"quota NaN": func(r *plan.Run) { r.Quota = math.NaN() }, "quota +Inf": func(r *plan.Run) { r.Quota = math.Inf(1) },
		"value-size 0: 1 to 65536 bytes": func(r *plan.Run) { r.Load.Value = 0 }, "padding -1: 0 to 1048576 bytes": func(r *plan.Run) { r.Load.Padding = -1 },
		"batch 100: transactions of 50331648 bytes together": func(r *plan.Run) { r.Batch, r.Load.Padding = 100, 1<<20 },
		"overlap 0: 1 to 4096":                               func(r *plan.Run) { r.Overlap = 0 }, "protocol": func(r *plan.Run) { r.Protocol = "raft" },
		"overlap 1: 64, the default, is accepted of zyzzyva": func(r *plan.Run) { r.Protocol, r.Overlap = "zyzzyva", 1 },
		"records 4611686018427387904: 2 to 100000000":        func(r *plan.Run) { r.Load.Records = 1 << 62 },
		"records 4294967295: 2 to 100000000":                 func(r *plan.Run) { r.Load.Records, r.Load.Value = math.MaxUint32, 1 },
		"records 200000 of 65536 bytes: a table of":          func(r *plan.Run) { r.Load.Records, r.Load.Value = 200_000, 1<<16 },
		"quota 0.05: 0, and from 0.1 on":                     func(r *plan.Run) { r.Quota = 0.05 }, "quota -1": func(r *plan.Run) { r.Quota = -1 },
	} {
		run := small()
		change(&run)
		_, err := Measure(context.Background(), run, brief)
		require.ErrorContains(t, err, name)
		_, err = Simulate(t.Context(), run, simulate.Default(), &Costs{})
		require.ErrorContains(t, err, name)
	}
	for want, o := range map[string]Options{
		"warmup -1s: a time from 0 on": {Warmup: -time.Second, Duration: time.Second}, "duration 0s: a time above 0": {},
	} {
		_, err := Measure(t.Context(), small(), o)
		require.ErrorContains(t, err, want)
	}
	_, err := Simulate(t.Context(), small(), simulate.Options{}, &Costs{})
	require.ErrorContains(t, err, "cores 0")
}

func TestASimulatedRunHasTheSameResult(t *testing.T) {
	run := small()
	o := simulate.Default()
	o.Batches, run.Quota, run.Delay, run.Bandwidth = 20, 0.4, time.Millisecond, 5e6
	found, err := Simulate(t.Context(), run, o, &Costs{})
	require.NoError(t, err)
	assert.Equal(t, "simulated", found.Kind)
	require.NotNil(t, found.Machines)
	assert.Equal(t, []any{1, 0.4, o.Latency + time.Millisecond, 5e6}, []any{found.Machines.Cores, found.Machines.Quota, found.Machines.Latency, found.Machines.Bandwidth})
	assert.Positive(t, found.Throughput)
	// Twenty batches may fall into the first part of a quota's period: that none goes beyond it is for the simulator's own
	// tests, whose costs are known.
	assert.InEpsilon(t, found.Throughput/found.Floor.Throughput, found.Floor.Part, 1e-9)
	assert.Len(t, found.Replicas, 4)
	assert.InEpsilon(t, found.CPU, sum(found.Stages), 1e-6)
	require.Len(t, found.Breakdown, len(stage.Names))
	for i, s := range found.Breakdown {
		assert.Equal(t, stage.Names[i], s.Stage)
		assert.Equal(t, stage.Unstated, s.Capacity, s.Stage)
		assert.Equal(t, found.Replicas[0].Stages[i].Threads, s.Threads, s.Stage)
	}
	var text bytes.Buffer
	require.NoError(t, found.WriteText(&text))
	assert.Contains(t, text.String(), stage.Head("replica")+"input  ")
	assert.Contains(t, text.String(), "1 cores each, of 1 times this one's speed; links of 1.1ms and 5 MB/s")
}

func TestCostsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs.json")
	simulated := func(change func(*plan.Run)) *Result {
		run := small()
		change(&run)
		o := simulate.Default()
		o.Batches, o.Cores = 20, 2
		costs, err := ReadCosts(file)
		require.NoError(t, err)
		found, err := Simulate(t.Context(), run, o, costs)
		require.NoError(t, err)
		return found
	}
	first := simulated(func(*plan.Run) {})
	assert.Equal(t, first.Costs, simulated(func(r *plan.Run) { r.Stages.Batch = 1 }).Costs, "stages cost nothing by themselves")
	other := simulated(func(r *plan.Run) { r.Protocol = "zyzzyva" }).Costs
	assert.NotEqual(t, first.Costs.Step, other.Step)
	other.Core = first.Costs.Core
	assert.Equal(t, first.Costs, other, "signatures cost as much")
	assert.NotEqual(t, first.Costs.Execute, simulated(func(r *plan.Run) { r.Load.Operations = 50 }).Costs.Execute)
	require.NoError(t, os.WriteFile(file, []byte("none"), 0o600))
	_, err := ReadCosts(file)
	assert.ErrorContains(t, err, file)
}

// TestCostsOfFewerStepsAreMeasuredAnew: an older version has kept a core's without those of its ticks.
func TestCostsOfFewerStepsAreMeasuredAnew(t *testing.T) {
	run, o, file := small(), simulate.Default(), filepath.Join(t.TempDir(), "costs.json")
	o.Batches = 20
	older := fmt.Sprintf(`{"cores": {"{Protocol:%s Replicas:%d Checkpoint:%d Beside:%v}": {"Step": {"submit": 1}}}}`,
		run.Protocol, run.Replicas, run.Interval(), busyPart(run))
	require.NoError(t, os.WriteFile(file, []byte(older), 0o600))
	costs, err := ReadCosts(file)
	require.NoError(t, err)
	found, err := Simulate(t.Context(), run, o, costs)
	require.NoError(t, err)
	assert.Contains(t, found.Costs.Step, "tick")
}

// TestCostsAreKeptAtOnce, also where the run fails.
func TestCostsAreKeptAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs.json")
	run := small()
	run.Protocol, run.Delay = "none", time.Hour
	measured := func() error {
		costs, err := ReadCosts(file)
		require.NoError(t, err)
		_, err = Simulate(t.Context(), run, simulate.Default(), costs)
		return err
	}
	require.ErrorContains(t, measured(), "virtual time")
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(kept), "submit")

	run.Load.Value++
	require.NoError(t, os.Mkdir(file+"."+durable.Making, 0o700))
	require.ErrorContains(t, measured(), "virtual time")
	costs, err := ReadCosts(file)
	require.NoError(t, err)
	assert.Len(t, costs.Parts, 2, "a file that cannot be replaced is written in place")

	file = filepath.Join(t.TempDir(), "missing", "costs.json")
	require.ErrorContains(t, measured(), file)
}

func TestASimulatedReplicaHasNeitherThreadsOfGoCodeNorTLS(t *testing.T) {
	for want, change := range map[error]func(*plan.Run){
		errProcessors: func(r *plan.Run) { r.Processors = 1 }, errTLS: func(r *plan.Run) { r.TLS = true },
	} {
		run := small()
		change(&run)
		_, err := Simulate(t.Context(), run, simulate.Default(), &Costs{})
		assert.ErrorIs(t, err, want)
	}
}

func sum(all map[string]float64) (total float64) {
	for _, one := range all {
		total += one
	}
	return total
}
