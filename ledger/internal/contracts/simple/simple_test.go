package simple_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/contracts/simple"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
)

func TestMoneyMoves(t *testing.T) {
	p := shimtest.Start(t, simple.New())
	p.OK("open", "a", "100")
	p.OK("open", "b", "0")
	p.OK("transfer", "a", "b", "100")
	assert.Equal(t, "0", p.OK("query", "a"))
	assert.Equal(t, "100", p.OK("query", "b"))
	p.OK("delete", "a")
	p.OK("open", "a", "7")
	assert.Equal(t, "7", p.OK("query", "a"))
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	p := shimtest.Start(t, simple.New())
	p.OK("open", "a", "100")
	p.OK("open", "rich", strconv.FormatInt(math.MaxInt64, 10))
	before := p.State()
	for _, c := range []struct {
		args []string
		want error
	}{
		{[]string{"open", "a", "1"}, record.ErrExists},
		{[]string{"open", "", "1"}, record.ErrArguments},
		{[]string{"open", "b", "-1"}, record.ErrArguments},
		{[]string{"open", "b", "much"}, record.ErrArguments},
		{[]string{"open", "b"}, record.ErrArguments},
		{[]string{"query", "b"}, record.ErrNotFound},
		{[]string{"delete", "b"}, record.ErrNotFound},
		{[]string{"transfer", "a", "b", "1"}, record.ErrNotFound},
		{[]string{"transfer", "b", "a", "1"}, record.ErrNotFound},
		{[]string{"transfer", "a", "a", "1"}, record.ErrArguments},
		{[]string{"transfer", "a", "rich", "101"}, record.ErrInsufficient},
		{[]string{"transfer", "a", "rich", "1"}, record.ErrArguments},
	} {
		response := p.Invoke(c.args...)
		assert.Equal(t, int32(500), response.GetStatus(), c.args)
		assert.Contains(t, response.GetMessage(), c.want.Error(), c.args)
	}
	assert.Equal(t, before, p.State())
}
