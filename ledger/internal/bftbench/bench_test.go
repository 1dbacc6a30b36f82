package bftbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/clients"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
	"github.com/qioi/qioi/ledger/internal/bftbench/store"
)

// TestMain lets this test's own program be the replicas of a run with processes.
func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == "bft-bench" {
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
		profile, err := os.ReadFile(filepath.Join(options.Profiles, fmt.Sprintf("replica%d.pprof", r.ID)))
		require.NoError(t, err)
		assert.NotEmpty(t, profile)
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

func TestReplicasOfOneProcessHaveNoProfilesOfTheirOwn(t *testing.T) {
	options := brief
	options.Profiles = t.TempDir()
	_, err := Measure(context.Background(), small(), options)
	require.ErrorIs(t, err, errInside)
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

func TestARunOutOfBoundsIsRefused(t *testing.T) {
	for name, change := range map[string]func(*plan.Run){
		"replicas": func(r *plan.Run) { r.Replicas = 3 }, "failed": func(r *plan.Run) { r.Failed = 2 },
		"batch": func(r *plan.Run) { r.Batch = 0 }, "clients": func(r *plan.Run) { r.Clients = 0 },
		"execute": func(r *plan.Run) { r.Stages.Execute = 2 }, "check": func(r *plan.Run) { r.Check = "none" },
		"auth": func(r *plan.Run) { r.Auth = "md5" }, "execution": func(r *plan.Run) { r.Execution = "disk" },
		"skew": func(r *plan.Run) { r.Load.Skew = 2 }, "linger": func(r *plan.Run) { r.Linger = 0 },
		"overlap": func(r *plan.Run) { r.Overlap = 0 }, "protocol": func(r *plan.Run) { r.Protocol = "raft" },
	} {
		run := small()
		change(&run)
		_, err := Measure(context.Background(), run, brief)
		require.ErrorContains(t, err, name)
	}
}

func TestASimulatedRunHasTheSameResult(t *testing.T) {
	run := small()
	o := simulate.Default()
	o.Batches, run.Quota = 20, 0.4
	found, err := Simulate(run, o)
	require.NoError(t, err)
	assert.Equal(t, "simulated", found.Kind)
	assert.Positive(t, found.Throughput)
	// Twenty batches may fall into the first part of a quota's period: that none goes beyond it is for the simulator's own
	// tests, whose costs are known.
	assert.InEpsilon(t, found.Throughput/found.Floor.Throughput, found.Floor.Part, 1e-9)
	assert.Len(t, found.Replicas, 4)
	assert.InEpsilon(t, found.CPU, sum(found.Stages), 1e-6)
}

func sum(all map[string]float64) (total float64) {
	for _, one := range all {
		total += one
	}
	return total
}
