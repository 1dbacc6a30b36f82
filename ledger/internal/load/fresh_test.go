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
