package load

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// TestAProcessSaysWhatBecameOfAWriteThatTimedOut: the worker's own patience ends earlier.
func TestAProcessSaysWhatBecameOfAWriteThatTimedOut(t *testing.T) {
	const timeout = 500 * time.Millisecond
	g := &fakeGateway{delay: func() time.Duration { return 2 * timeout }}
	t.Setenv(onceEnv, "1")
	one := spawned{options: &options{
		network: startNetwork(t, g), chaincode: "kv", timeout: timeout, consistency: "quorum",
	}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	o := one.do(ctx, 0, newCall("insert", "k", "v"))
	assert.Equal(t, stageCommit, o.failedAt, o.detail)
	assert.Equal(t, "DEADLINE_EXCEEDED", o.code)
	assert.NotEmpty(t, o.txID)
}

// TestAWriteWhoseProcessIsKilledIsLost: nobody knows whether it was sent.
func TestAWriteWhoseProcessIsKilledIsLost(t *testing.T) {
	t.Setenv(onceEnv, onceKilled)
	one := spawned{options: &options{chaincode: "kv", timeout: time.Minute}}
	for function, want := range map[string]outcome{
		"insert": {failedAt: stageCommit, code: codeUnknown, lost: true, unknown: true},
		"get":    {failedAt: stageOperation, code: "UNAVAILABLE"},
	} {
		o := one.do(context.Background(), 0, newCall(function, "k"))
		assert.Contains(t, o.detail, "killed")
		o.detail = ""
		assert.Equal(t, want, o, function)
	}
}
