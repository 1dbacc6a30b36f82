package load

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAProcessForAFunctionWithoutArguments, as scm's bullwhip is.
func TestAProcessForAFunctionWithoutArguments(t *testing.T) {
	g := &fakeGateway{}
	t.Setenv(onceEnv, "1")
	o := &options{network: startNetwork(t, g), chaincode: "scm", timeout: time.Minute, consistency: "quorum"}
	one := spawned{options: o}
	assert.Empty(t, one.do(context.Background(), 0, newCall("bullwhip")).detail)
	assert.Equal(t, []string{"bullwhip"}, g.seen())
	assert.Contains(t, one.do(context.Background(), 0, newCall("")).detail, "a function and its arguments are expected")
}

// TestAProcessSaysWhatBecameOfAWriteThatTimedOut: the worker's own patience ends earlier. Where a process has not got to the
// commit in its time, the host is slow, and the next one has more.
func TestAProcessSaysWhatBecameOfAWriteThatTimedOut(t *testing.T) {
	var committing atomic.Bool
	ended := make(chan struct{})
	g := &fakeGateway{delay: func() time.Duration {
		committing.Store(true)
		<-ended
		return 0
	}}
	t.Setenv(onceEnv, "1")
	network := startNetwork(t, g)
	defer close(ended)
	for timeout := 250 * time.Millisecond; ; timeout *= 2 {
		committing.Store(false)
		one := spawned{options: &options{network: network, chaincode: "kv", timeout: timeout, consistency: "quorum"}}
		ctx, cancel := context.WithTimeout(context.Background(), timeout/2)
		o := one.do(ctx, 0, newCall("insert", "k", "v"))
		cancel()
		if !committing.Load() {
			require.Less(t, timeout, time.Minute, o.detail)
			continue
		}
		assert.Equal(t, stageCommit, o.failedAt, o.detail)
		assert.Equal(t, "DEADLINE_EXCEEDED", o.code)
		assert.NotEmpty(t, o.txID)
		return
	}
}

// TestAWriteWhoseProcessEndsWithoutAWordIsLost: nobody knows whether it was sent.
func TestAWriteWhoseProcessEndsWithoutAWordIsLost(t *testing.T) {
	one := spawned{options: &options{chaincode: "kv", timeout: time.Minute}}
	for end, says := range map[string]string{onceKilled: "killed", oncePanics: "exit status 2: panic: once", onceSilent: "JSON"} {
		t.Setenv(onceEnv, end)
		for function, want := range map[string]outcome{
			"insert": {failedAt: stageCommit, code: codeUnknown, lost: true, unknown: true},
			"get":    {failedAt: stageOperation, code: "UNAVAILABLE"},
		} {
			o := one.do(context.Background(), 0, newCall(function, "k"))
			assert.Contains(t, o.detail, says)
			o.detail = ""
			assert.Equal(t, want, o, end, function)
		}
	}
}

// TestCtrlCWaitsForProcessesToo: a terminal sends its signal to all processes of the group.
func TestCtrlCWaitsForProcessesToo(t *testing.T) {
	under, interrupted := make(chan struct{}, 1000), make(chan struct{})
	g := &fakeGateway{delay: func() time.Duration {
		under <- struct{}{}
		<-interrupted
		return 200 * time.Millisecond // longer than a signal takes
	}}
	program, err := os.Executable()
	require.NoError(t, err)
	result := filepath.Join(t.TempDir(), "result.json")
	cmd := exec.Command(program, "load", "--network", startNetwork(t, g), "--fresh", "process", "--clients", "2",
		"--warmup", "0s", "--duration", "1h", "--chaincode", "kv", "--json", result, "--progress", "0")
	cmd.Env = append(os.Environ(), onceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		select {
		case <-ended: // its number may be another's
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	})
	for range 2 {
		select {
		case <-under:
		case <-ended:
			t.Fatal("it has ended by itself: ", err)
		}
	}
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	close(interrupted)
	<-ended
	require.NoError(t, err)
	var r Result
	text, err := os.ReadFile(result)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	assert.True(t, r.Interrupted)
	assert.Empty(t, r.Failures)
	assert.Equal(t, r.Sent, r.Committed)
	assert.GreaterOrEqual(t, r.Committed, int64(2))
}
