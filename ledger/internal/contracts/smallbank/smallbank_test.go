package smallbank_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/contracts/smallbank"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
)

func bank(t *testing.T) *shimtest.Peer {
	t.Helper()
	p := shimtest.Start(t, smallbank.New())
	p.OK("create_account", "1", "Ada", "100", "1000")
	p.OK("create_account", "2", "Bob", "50", "500")
	return p
}

func balances(t *testing.T, p *shimtest.Peer, id string) (checking, savings int64) {
	t.Helper()
	var a smallbank.Account
	require.NoError(t, json.Unmarshal([]byte(p.OK("query", id)), &a))
	return a.Checking, a.Savings
}

func TestTheRecordHasCalipersFields(t *testing.T) {
	assert.JSONEq(t, `{"CustomId":"1","CustomName":"Ada","SavingsBalance":1000,"CheckingBalance":100}`, bank(t).OK("query", "1"))
}

func TestOperationsMoveMoney(t *testing.T) {
	for _, c := range []struct {
		name                     string
		args                     []string
		c1, s1, c2, s2, netInput int64
	}{
		{"deposit", []string{"deposit_checking", "7", "1"}, 107, 1000, 50, 500, 7},
		{"savings", []string{"transact_savings", "7", "2"}, 100, 1000, 50, 507, 7},
		{"check", []string{"write_check", "7", "1"}, 93, 1000, 50, 500, -7},
		{"check to the last coin", []string{"withdraw", "100", "1"}, 0, 1000, 50, 500, -100},
		{"payment from 2 to 1", []string{"send_payment", "7", "1", "2"}, 107, 1000, 43, 500, 0},
		{"transfer from 1 to 2", []string{"transfer", "7", "2", "1"}, 93, 1000, 57, 500, 0},
		{"amalgamate 2 into 1", []string{"amalgamate", "1", "2"}, 600, 1000, 50, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := bank(t)
			p.OK(c.args...)
			c1, s1 := balances(t, p, "1")
			c2, s2 := balances(t, p, "2")
			assert.Equal(t, []int64{c.c1, c.s1, c.c2, c.s2}, []int64{c1, s1, c2, s2})
			assert.Equal(t, 1650+c.netInput, c1+s1+c2+s2)
		})
	}
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	p := bank(t)
	p.OK("create_account", "rich", "Cy", strconv.FormatInt(math.MaxInt64, 10), "1")
	before := p.State()
	for _, c := range []struct {
		args []string
		want error
	}{
		{[]string{"create_account", "1", "Eve", "1", "1"}, smallbank.ErrExists},
		{[]string{"create_account", "", "Eve", "1", "1"}, smallbank.ErrArguments},
		{[]string{"create_account", "3", "Eve", "1"}, smallbank.ErrArguments},
		{[]string{"create_account", "3", "Eve", "1", "-1"}, smallbank.ErrArguments},
		{[]string{"deposit_checking", "7", "9"}, smallbank.ErrNoAccount},
		{[]string{"deposit_checking", "seven", "1"}, smallbank.ErrArguments},
		{[]string{"deposit_checking", "-7", "1"}, smallbank.ErrArguments},
		{[]string{"deposit_checking", "1", "rich"}, smallbank.ErrArguments},
		{[]string{"write_check", "101", "1"}, smallbank.ErrInsufficient},
		{[]string{"send_payment", "51", "1", "2"}, smallbank.ErrInsufficient},
		{[]string{"send_payment", "1", "1", "1"}, smallbank.ErrArguments},
		{[]string{"send_payment", "1", "1", "9"}, smallbank.ErrNoAccount},
		{[]string{"amalgamate", "rich", "1"}, smallbank.ErrArguments},
		{[]string{"query", "9"}, smallbank.ErrNoAccount},
		{[]string{"query"}, smallbank.ErrArguments},
	} {
		response := p.Invoke(c.args...)
		assert.Equal(t, int32(500), response.GetStatus(), c.args)
		assert.Contains(t, response.GetMessage(), c.want.Error(), c.args)
	}
	assert.Equal(t, before, p.State())
}
