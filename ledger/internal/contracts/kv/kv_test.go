package kv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/contracts/kv"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

func TestPutGetDelete(t *testing.T) {
	p := shimtest.Start(t, kv.New())
	value := strings.Repeat("x", 1024)
	p.OK("put", "a", value)
	assert.NotContains(t, p.Calls, peerpb.ChaincodeMessage_GET_STATE, "a put must not read")
	assert.Equal(t, value, p.OK("get", "a"))
	p.OK("delete", "a")
	assert.Empty(t, p.OK("get", "a"))
}

func TestUpdateReturnsWhatItReplaces(t *testing.T) {
	p := shimtest.Start(t, kv.New())
	assert.Empty(t, p.OK("update", "a", "1"))
	assert.Equal(t, "1", p.OK("update", "a", "2"))
	assert.Equal(t, "2", p.OK("get", "a"))
}

func TestInsertRefusesAKeyThatIsThere(t *testing.T) {
	p := shimtest.Start(t, kv.New())
	p.OK("insert", "a", "1")
	refused := p.Invoke("insert", "a", "2")
	assert.Equal(t, int32(500), refused.GetStatus())
	assert.Contains(t, refused.GetMessage(), "key a exists already")
	assert.Equal(t, "1", p.OK("get", "a"))
}

func TestScanStopsAtItsEndOrLimit(t *testing.T) {
	p := shimtest.Start(t, kv.New())
	for _, key := range []string{"c", "a", "d", "b"} {
		p.OK("put", key, "v"+key)
	}
	assert.JSONEq(t, `[{"key":"b","value":"vb"},{"key":"c","value":"vc"}]`, p.OK("scan", "b", "d", "10"))
	assert.JSONEq(t, `[{"key":"a","value":"va"}]`, p.OK("scan", "", "", "1"))
	assert.JSONEq(t, `[]`, p.OK("scan", "x", "y", "10"))
	assert.Zero(t, p.OpenQueries())
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	p := shimtest.Start(t, kv.New())
	for _, args := range [][]string{
		{"put", "a"}, {"get"}, {"delete", "a", "b"}, {"update", "a"}, {"insert", "a"}, {"scan", "a", "b"}, {"scan", "a", "b", "0"}, {"scan", "a", "b", "many"},
	} {
		response := p.Invoke(args...)
		assert.Equal(t, int32(500), response.GetStatus(), args)
		assert.Contains(t, response.GetMessage(), args[0]+" takes", args)
	}
}
