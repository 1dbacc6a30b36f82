package load

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/contracts/smallbank"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

func TestOpenLoopSendsAtItsRateToAllPeers(t *testing.T) {
	one, two := &fakeGateway{}, &fakeGateway{}
	network := startNetwork(t, one, two)
	r, err := execute(context.Background(), t, "--network", network, "--rate", "100", "--warmup", "100ms", "--duration", "500ms")
	require.NoError(t, err)
	assert.Empty(t, one.refused)
	assert.Empty(t, two.refused)
	assert.Equal(t, "open", r.Loop)
	assert.Equal(t, int64(50), r.Sent, "what was due in the window, whatever the machine did")
	assert.Equal(t, int64(50), r.Committed)
	assert.InDelta(t, 100, r.AchievedRate, 0.001)
	assert.Zero(t, r.Failed+r.Unsent)
	assert.Len(t, one.seen(), 30)
	assert.Len(t, two.seen(), 30)
	assert.Equal(t, []string{"peer0", "peer1"}, r.Peers)
	assert.Equal(t, "create", r.Workload)
	assert.Positive(t, r.Latency.P50)
	assert.LessOrEqual(t, r.Latency.P50, r.Latency.Max)
	assert.Positive(t, r.Stages["endorse"].P50)
	assert.Positive(t, r.CPU.UserSeconds+r.CPU.SysSeconds)
}

func TestOpenLoopChargesAStallToTheLedger(t *testing.T) {
	// The ledger stands still for 400 ms at the first commit. With one transaction
	// under way at a time the others wait for it, and their wait must be seen.
	var stalled atomic.Bool
	g := &fakeGateway{delay: func() time.Duration {
		if stalled.CompareAndSwap(false, true) {
			return 400 * time.Millisecond
		}
		return 0
	}}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "50", "--max-in-flight", "1",
		"--warmup", "0s", "--duration", "1s")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, r.Latency.Mean, 50.0, "20 transactions waited 200 ms on average")
	assert.Less(t, r.Stages["commit"].P50, 400.0)
	assert.Equal(t, int64(50), r.Sent+r.Unsent)
}

func TestOpenLoopSaysWhatItCouldNotSend(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	g := &fakeGateway{delay: func() time.Duration { return 2500 * time.Millisecond }}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "20", "--max-in-flight", "1",
		"--warmup", "0s", "--duration", "2s")
	require.NoError(t, err)
	assert.Equal(t, int64(1), r.Committed)
	assert.Equal(t, int64(39), r.Unsent)
	assert.Zero(t, r.Throughput, "its commit came after the window")
}

func TestTheLoadGoesOnDuringTheCooldown(t *testing.T) {
	g := &fakeGateway{}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "100", "--warmup", "100ms",
		"--duration", "300ms", "--cooldown", "200ms")
	require.NoError(t, err)
	assert.Len(t, g.seen(), 60)
	assert.Equal(t, int64(30), r.Sent, "what is due in the cooldown is not measured")
	assert.Equal(t, int64(30), r.Committed)
	assert.InDelta(t, 0.3, r.Seconds, 0.001)
}

// TestWhatTheWindowCouldNotSendIsNotSentInTheCooldown: the first call lasts for longer than the window, and the second one,
// of the cooldown, ends the run.
func TestWhatTheWindowCouldNotSendIsNotSentInTheCooldown(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var calls atomic.Int64
	g := &fakeGateway{delay: func() time.Duration {
		if calls.Add(1) == 1 {
			return 1200 * time.Millisecond
		}
		end()
		return 0
	}}
	r, err := execute(ctx, t, "--network", startNetwork(t, g), "--rate", "30", "--max-in-flight", "1", "--timeout", "1m",
		"--warmup", "0s", "--duration", "1s", "--cooldown", "10m")
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.Equal(t, int64(1), r.Committed)
	assert.Equal(t, int64(29), r.Unsent)
	assert.Len(t, g.seen(), 2, "the load went on")
}

func TestClosedLoopKeepsItsClients(t *testing.T) {
	var inside, most atomic.Int64
	all := make(chan struct{}) // closes once four are inside
	g := &fakeGateway{}
	g.delay = func() time.Duration {
		for n := inside.Add(1); ; {
			if seen := most.Load(); n <= seen || most.CompareAndSwap(seen, n) {
				if n > seen && n == 4 {
					close(all)
				}
				break
			}
		}
		defer inside.Add(-1)
		select {
		case <-all:
			time.Sleep(2 * time.Millisecond)
		case <-time.After(30 * time.Second):
		}
		return 0
	}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--clients", "4", "--warmup", "0s", "--duration", "1s", "--timeout", "1m",
		"--chaincode", "kv", "--value-size", "1024", "--accounts", "10")
	require.NoError(t, err)
	assert.Equal(t, "closed", r.Loop)
	assert.Equal(t, int64(4), most.Load())
	assert.Equal(t, r.Sent, r.Committed)
	for _, c := range g.seen() {
		words := strings.Split(c, " ")
		require.Len(t, words, 3)
		assert.Equal(t, "put", words[0])
		assert.Len(t, words[2], 1024)
	}
}

func TestReadsCanBeQueries(t *testing.T) {
	ordered, asked := &fakeGateway{}, &fakeGateway{}
	args := []string{"--rate", "200", "--warmup", "0s", "--duration", "300ms", "--chaincode", "kv", "--workload", "insert",
		"--read-share", "0.5", "--value-size", "8", "--accounts", "10", "--network"}
	_, err := execute(context.Background(), t, append(args, startNetwork(t, ordered))...)
	require.NoError(t, err)
	assert.Empty(t, ordered.evaluated)

	record := filepath.Join(t.TempDir(), "record")
	r, err := execute(context.Background(), t, append(args, startNetwork(t, asked), "--queries", "--record", record)...)
	require.NoError(t, err)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	assert.Equal(t, r.Kinds["insert"].Committed, int64(strings.Count(string(text), "\n")), "a ledger has no other ids")
	assert.Equal(t, int64(60), r.Committed)
	assert.Equal(t, int64(len(asked.evaluated)), r.Kinds["get"].Committed)
	assert.Equal(t, int64(60), r.Kinds["get"].Committed+r.Kinds["insert"].Committed)
	assert.NotEmpty(t, asked.evaluated)
	for _, c := range asked.seen() {
		assert.NotContains(t, c, "get ", "what is asked is not ordered")
	}
	get := r.Kinds["get"].Latency
	assert.Positive(t, get.Min)
	assert.LessOrEqual(t, get.Min, get.P25)
	assert.LessOrEqual(t, get.P25, get.P50)
	assert.LessOrEqual(t, get.P50, get.P75)
	assert.LessOrEqual(t, get.P75, get.Max*1.001)
}

func TestABurstIsDueAtOnce(t *testing.T) {
	p := &pacer{plan: plan{rate: 10, burst: 5, duration: time.Second}, start: time.Unix(1_000_000, 0)}
	var due []time.Duration
	for i := range 11 {
		due = append(due, p.due(i).Sub(p.start))
	}
	half := 500 * time.Millisecond
	assert.Equal(t, []time.Duration{0, 0, 0, 0, 0, half, half, half, half, half, 2 * half}, due)

	g := &fakeGateway{}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "40", "--burst", "10", "--warmup", "0s",
		"--duration", "1s")
	require.NoError(t, err)
	assert.Equal(t, int64(40), r.Committed)
}

func TestAConnectionForEachOperation(t *testing.T) {
	one, two := &fakeGateway{}, &fakeGateway{}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, one, two), "--rate", "20", "--fresh", "connection",
		"--warmup", "0s", "--duration", "500ms")
	require.NoError(t, err)
	assert.Equal(t, int64(10), r.Committed)
	assert.Len(t, one.seen(), 5)
	assert.Len(t, two.seen(), 5)
	assert.Positive(t, one.connections.Load()-1, "each on its own")
	assert.Equal(t, int64(6), one.connections.Load(), "one for each, and the one that looks whether the peer answers")
}

func TestAProcessForEachOperation(t *testing.T) {
	g := &fakeGateway{}
	t.Setenv(onceEnv, "1") // this test's program is the command then
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "10", "--fresh", "process", "--warmup", "0s",
		"--duration", "500ms", "--chaincode", "kv", "--value-size", "40")
	require.NoError(t, err)
	assert.Equal(t, int64(5), r.Committed, r.Failures)
	assert.Len(t, g.seen(), 5)
	assert.Empty(t, g.refused)
}

func TestFailuresAreCountedByStageAndCode(t *testing.T) {
	var n atomic.Int64
	g := &fakeGateway{verdict: func([]string) (peerpb.TxValidationCode, error) {
		switch n.Add(1) % 4 {
		case 0:
			refused, err := status.New(codes.ResourceExhausted, "too many requests").WithDetails(
				&gatewaypb.ErrorDetail{Address: "peer0:7051", MspId: "Org1MSP", Message: "full"})
			return 0, errors.Join(err, refused.Err())
		case 1:
			return peerpb.TxValidationCode_MVCC_READ_CONFLICT, nil
		default:
			return peerpb.TxValidationCode_VALID, nil
		}
	}}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "200", "--warmup", "0s", "--duration", "200ms")
	require.NoError(t, err)
	assert.Equal(t, int64(20), r.Committed)
	assert.Equal(t, int64(20), r.Failed)
	require.Len(t, r.Failures, 2)
	assert.Equal(t, Failure{Stage: "commit", Code: "MVCC_READ_CONFLICT", Count: 10}, r.Failures[0])
	refused := r.Failures[1]
	assert.Equal(t, "RESOURCE_EXHAUSTED", refused.Code)
	assert.Equal(t, "endorse", refused.Stage)
	assert.Contains(t, refused.Example, "too many requests; peer0:7051 (Org1MSP): full")
}

func TestNothingCommittedIsAnError(t *testing.T) {
	g := &fakeGateway{verdict: func([]string) (peerpb.TxValidationCode, error) {
		return 0, status.Error(codes.Unavailable, "no endorsers")
	}}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--clients", "1", "--warmup", "0s", "--duration", "1s")
	require.ErrorIs(t, err, ErrNothingCommitted)
	assert.Equal(t, "UNAVAILABLE", r.Failures[0].Code)
	assert.LessOrEqual(t, r.Sent, int64(51), "a client that is refused does not spin")
}

func TestAnInterruptKeepsTheResultsSoFar(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Int64
	g := &fakeGateway{delay: func() time.Duration {
		if n.Add(1) == 20 {
			cancel()
		}
		return 0
	}}
	r, err := execute(ctx, t, "--network", startNetwork(t, g), "--clients", "2", "--warmup", "0s", "--duration", "1h")
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.GreaterOrEqual(t, r.Committed, int64(20))
	assert.Equal(t, r.Sent, r.Committed, "what was under way is waited for")
	assert.Positive(t, r.Throughput)
}

func TestMixSetsItsAccountsUpOnce(t *testing.T) {
	created := map[string]bool{}
	g := &fakeGateway{}
	g.verdict = func(args []string) (peerpb.TxValidationCode, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if args[0] == "create_account" {
			// Account 3 is there from an earlier run.
			if args[1] == "3" {
				return 0, status.Error(codes.Aborted, "chaincode response 500, "+smallbank.ErrExists.Error()+": 3")
			}
			created[args[1]] = true
		}
		return peerpb.TxValidationCode_VALID, nil
	}
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "200", "--workload", "mix",
		"--accounts", "20", "--warmup", "0s", "--duration", "300ms")
	require.NoError(t, err)
	assert.Len(t, created, 19)
	assert.Equal(t, int64(60), r.Committed, "the set-up is not measured")
	operations := map[string]int{}
	for _, c := range g.seen() {
		operations[strings.Fields(c)[0]]++
	}
	for _, name := range []string{"transact_savings", "deposit_checking", "send_payment", "write_check", "amalgamate"} {
		assert.Positive(t, operations[name], name)
	}
}

func TestTheSetUpWaitsForALeaderButNotForAWrongName(t *testing.T) {
	var n atomic.Int64
	late := &fakeGateway{verdict: func([]string) (peerpb.TxValidationCode, error) {
		if n.Add(1) < 3 {
			return 0, status.Error(codes.Unavailable, "no Raft leader at the moment")
		}
		return peerpb.TxValidationCode_VALID, nil
	}}
	mix := []string{"--clients", "1", "--workload", "mix", "--accounts", "2", "--warmup", "0s", "--duration", "1s", "--network"}
	_, err := execute(context.Background(), t, append(mix, startNetwork(t, late))...)
	require.NoError(t, err)

	wrong := &fakeGateway{verdict: func([]string) (peerpb.TxValidationCode, error) {
		return 0, status.Error(codes.NotFound, "no such chaincode")
	}}
	_, err = execute(context.Background(), t, append(mix, startNetwork(t, wrong))...)
	require.ErrorContains(t, err, `endorse of "create_account" failed: NOT_FOUND no such chaincode`)
}

func TestRecordAndTimeseriesHoldWhatWasReported(t *testing.T) {
	var n atomic.Int64
	g := &fakeGateway{verdict: func([]string) (peerpb.TxValidationCode, error) {
		if n.Add(1)%2 == 0 {
			return peerpb.TxValidationCode_DUPLICATE_TXID, nil
		}
		return peerpb.TxValidationCode_VALID, nil
	}}
	dir := t.TempDir()
	record, rows := filepath.Join(dir, "record"), filepath.Join(dir, "rows.csv")
	r, err := execute(context.Background(), t, "--network", startNetwork(t, g), "--rate", "100", "--warmup", "0s", "--duration", "400ms",
		"--record", record, "--timeseries", rows)
	require.NoError(t, err)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	assert.Len(t, lines, 20)
	for _, line := range lines {
		id, block, _ := strings.Cut(line, " ")
		assert.Equal(t, peerpb.TxValidationCode_VALID, g.known[id])
		assert.Equal(t, "7", block)
	}
	file, err := os.Open(rows)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	table, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, []string{"t", "unix", "tps", "failed", "p50_ms", "p95_ms", "p99_ms"}, table[0])
	assert.Len(t, table, len(r.Series)+1)
	var tps, failed int64
	for _, s := range r.Series {
		tps, failed = tps+s.TPS, failed+s.Failed
	}
	assert.Equal(t, int64(20), tps)
	assert.Equal(t, int64(20), failed)
}

func TestWrongUseIsSaidInOneLine(t *testing.T) {
	network := startNetwork(t, &fakeGateway{})
	broken := filepath.Join(t.TempDir(), "network.json")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--rate", "1"}, "--network is missing"},
		{[]string{"--network", "/nowhere.json", "--rate", "1"}, "/nowhere.json"},
		{[]string{"--network", broken, "--rate", "1"}, broken},
		{[]string{"--network", network}, "exactly one of --rate"},
		{[]string{"--network", network, "--rate", "1", "--clients", "1"}, "exactly one of --rate"},
		{[]string{"--network", network, "--rate", "-1"}, "exactly one of --rate"},
		{[]string{"--network", network, "--rate", "1e-7"}, "--rate 1e-07: 0.001 to 1000000 is accepted"},
		{[]string{"--network", network, "--rate", "2e6"}, "--rate 2e+06: 0.001 to 1000000 is accepted"},
		{[]string{"--network", network, "--rate", "1", "--duration", "0s"}, "--duration"},
		{[]string{"--network", network, "--rate", "1", "--accounts", "1"}, "--accounts"},
		{[]string{"--network", network, "--rate", "1", "--hot-share", "2"}, "--hot-share"},
		{[]string{"--network", network, "--rate", "1", "--value-size", "0"}, "--value-size"},
		{[]string{"--network", network, "--clients", "1", "--burst", "2"}, "--burst"},
		{[]string{"--network", network, "--rate", "1", "--fresh", "x"}, "connection and process are accepted"},
		{[]string{"--network", network, "--rate", "1", "--consistency", "x"}, "one, quorum, all and serial are accepted"},
		{[]string{"--network", network, "--rate", "1", "--zipf", "1"}, "--zipf"},
		{[]string{"--network", network, "--rate", "1", "--zipf", "0.5", "--hot-keys", "1"}, "--zipf"},
		{[]string{"--network", network, "--rate", "1", "--read-share", "2"}, "--read-share"},
		{[]string{"--network", network, "--clients", "1", "--rate", "NaN"}, "a finite number is accepted"},
		{[]string{"--network", network, "--rate", "1", "--channel", "x"}, `channel "x"`},
		{[]string{"--network", network, "--rate", "1", "--chaincode", "x"}, `chaincode "x": fabcoin, kv, scm, smallbank are accepted`},
		{[]string{"--network", network, "--rate", "1", "--workload", "x"}, `no workload "x": create, mix are accepted`},
		{[]string{"--network", network, "--rate", "1", "--peers", "peer9"}, `peer "peer9"`},
		{[]string{"--network", network, "--rate", "1", "--record", "/nowhere/x"}, "/nowhere/x"},
	} {
		_, err := execute(context.Background(), t, c.args...)
		require.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "\n")
	}
}
