package bftbench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
)

// TestTheFloorIsOfTheReplicasThatVerify: the others' processors verify nothing.
func TestTheFloorIsOfTheReplicasThatVerify(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*plan.Run)
		quota       float64
		cores, most float64 // processors, and transactions per second where a signature takes a millisecond
	}{
		"all":                          {func(*plan.Run) {}, 0, 8, 2000},
		"all, on a thread each":        {func(r *plan.Run) { r.Processors = 1 }, 0, 4, 1000},
		"all, with a quota":            {func(*plan.Run) {}, 0.5, 2, 500},
		"all, with more than the host": {func(*plan.Run) {}, 4, 8, 2000},
		"three of four":                {func(r *plan.Run) { r.Failed = 1 }, 0.5, 1.5, 500},
		"the primary":                  {func(r *plan.Run) { r.Check = plan.CheckPrimary }, 0, 4, 4000}, // it runs on four threads
		"the primary, with a quota":    {func(r *plan.Run) { r.Check = plan.CheckPrimary }, 0.5, 0.5, 500},
		"a replica alone":              {func(r *plan.Run) { r.Protocol = "none" }, 0, 4, 4000},
		"a replica alone, quota":       {func(r *plan.Run) { r.Protocol = "none" }, 0.5, 0.5, 500},
		"bursts":                       {func(r *plan.Run) { r.Load.Burst = 5 }, 0.5, 2, 2500},
	} {
		run := small()
		run.Quota = c.quota
		c.change(&run)
		f := Floor{VerifyMicroseconds: 1000, Cores: verifying(run, 8, false)}
		assert.InDelta(t, c.cores, f.Cores, 1e-9, name)
		assert.InDelta(t, c.most, f.bound(run), 1e-6, name)
	}
}

func TestASimulatedFloorIsOfTheReplicasThatVerify(t *testing.T) {
	run, o, costs := small(), simulate.Default(), &Costs{}
	o.Batches, o.Cores, o.Speed = 20, 3, 0.5
	for check, cores := range map[string]float64{plan.CheckAll: 6, plan.CheckPrimary: 1.5} {
		run.Check = check
		found, err := Simulate(t.Context(), run, o, costs)
		require.NoError(t, err)
		assert.InEpsilon(t, cores, found.Floor.Cores, 1e-9, check)
		assert.InEpsilon(t, 1.5e6/found.Floor.VerifyMicroseconds, found.Floor.Throughput, 1e-9, check)
	}
}

// lengths notes how many bytes it is to verify.
type lengths struct {
	auth.Authenticator
	verified map[int]bool
}

func (l lengths) VerifyBroadcast(from auth.Party, data, signature []byte) bool {
	l.verified[len(data)] = true
	return l.Authenticator.VerifyBroadcast(from, data, signature)
}

// TestTheFloorCountsTheHashOfARequest, which a replica that verifies computes.
func TestTheFloorCountsTheHashOfARequest(t *testing.T) {
	run := small()
	run.Load.Operations, run.Load.Burst, run.Load.Value, run.Load.Padding = 2, 3, 1<<10, 5
	keys, err := auth.NewKeys(run.Auth, run.Replicas, 1)
	require.NoError(t, err)
	suite, err := auth.New(keys, auth.Machine(0))
	require.NoError(t, err)
	by := lengths{suite.Requests, map[int]bool{}}
	found, err := verifyMicroseconds(run, by)
	require.NoError(t, err)
	assert.Positive(t, found)
	require.Len(t, by.verified, 1)
	for length := range by.verified {
		assert.Greater(t, length, 6<<10+15, "all that it writes")
		assert.Less(t, length, run.Load.Size())
	}
	floor, err := floorOf(run, keys, true)
	require.NoError(t, err)
	assert.Positive(t, floor.VerifyMicroseconds)
	assert.InEpsilon(t, floor.bound(run), floor.Throughput, 1e-9)
}
