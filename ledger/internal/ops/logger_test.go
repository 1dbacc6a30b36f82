package ops

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testBackend(t *testing.T, format, spec string) (*backend, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	b, err := newBackend(&out, format, spec)
	require.NoError(t, err)
	b.now = func() time.Time { return time.Date(2026, 11, 21, 4, 27, 56, 52_900_000, time.FixedZone("CET", 3600)) }
	return b, &out
}

func (b *backend) commit(l *ModuleLogger) {
	l.Infof("[%s] Committed block [%d] with %d transaction(s)", "mychannel", 7, 3)
}

func TestTextLineIsFabrics(t *testing.T) {
	b, out := testBackend(t, "", "")
	b.seq = 0x2a
	b.commit(b.logger("kvledger"))
	assert.Equal(t, "2026-11-21 03:27:56.052 UTC 002b INFO [kvledger] commit -> "+
		"[mychannel] Committed block [7] with 3 transaction(s)\n", out.String())
}

func TestTextKeepsTheNamedFunctionOfAClosure(t *testing.T) {
	b, out := testBackend(t, "", "")
	func() { b.logger("m").Warnf("careful") }()
	assert.Contains(t, out.String(), "0001 WARN [m] TestTextKeepsTheNamedFunctionOfAClosure -> careful\n")
}

func TestAClientCannotForgeALine(t *testing.T) {
	b, out := testBackend(t, "", "")
	b.logger("m").Errorf("bad key %s", "x\n2026-11-21 00:00:00.000 UTC 0001 INFO [kvledger] commit -> \x1b[31mfake\r")
	assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")))
	assert.Contains(t, out.String(), `bad key x\n2026`)
	assert.NotContains(t, out.String(), "\x1b")
}

func TestJSONLineHasFabricsFields(t *testing.T) {
	b, out := testBackend(t, "json", "")
	b.commit(b.logger("kvledger"))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, "info", line["level"])
	assert.Equal(t, "kvledger", line["name"])
	assert.Equal(t, "[mychannel] Committed block [7] with 3 transaction(s)", line["msg"])
	assert.InDelta(t, 1795231676.0529, line["ts"], 1e-6)
	assert.Regexp(t, regexp.MustCompile(`^ops/logger_test\.go:\d+$`), line["caller"])
	assert.Regexp(t, `^\{"level":.*"ts":.*"name":.*"caller":.*"msg":`, out.String())
}

func TestSpecSetsLevelsByModulePrefix(t *testing.T) {
	b, out := testBackend(t, "", "orderer.consensus,gossip=debug:kvledger=error:warn")
	for module, want := range map[string]Level{
		"orderer.consensus.etcdraft": Debug, "gossip": Debug, "orderer": Warn, "orderer.consensusx": Warn, "kvledger": Error,
	} {
		assert.Equal(t, want, b.spec.level(module), module)
	}
	b.logger("kvledger").Warnf("unheard")
	assert.Empty(t, out.String())
	require.NoError(t, b.setSpec("debug"))
	b.logger("kvledger").Debugf("heard")
	assert.Contains(t, out.String(), "DEBU [kvledger]")
	assert.Equal(t, "debug", b.specText())
}

func TestWrongSpecIsRefusedAndNamed(t *testing.T) {
	for _, text := range []string{"loud", "a=", "=info", "a=b=info", "info::"} {
		_, err := parseSpec(text)
		assert.ErrorContains(t, err, "log specification", text)
	}
	b, _ := testBackend(t, "", "warn")
	require.Error(t, b.setSpec("loud"))
	assert.Equal(t, "warn", b.specText(), "a refused specification changes nothing")
}
