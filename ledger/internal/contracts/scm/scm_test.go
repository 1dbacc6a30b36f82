package scm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/contracts/scm"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
)

func TestAContractComesWithAStandingOrder(t *testing.T) {
	p := shimtest.Start(t, scm.New())
	assert.Equal(t, "40", p.OK("create_contract", "a", "1", "2", "7", "40"))
	assert.Equal(t, "50", p.OK("place_order", "b", "a", "10"))
	assert.Equal(t, "15", p.OK("update_order", "a", "5"))
	assert.Equal(t, "15", p.OK("update_order", "a", "5"), "the same again changes nothing")
}

func TestDaysOfSupply(t *testing.T) {
	p := shimtest.Start(t, scm.New())
	assert.Equal(t, "-1", p.OK("days_of_supply", "1"))
	p.OK("create_contract", "a", "1", "2", "7", "40")
	p.OK("create_contract", "b", "1", "3", "8", "60")
	assert.Equal(t, "6000", p.OK("days_of_supply", "1"), "20,000 in stock, 100 ordered for 30 days")
	assert.Equal(t, "-1", p.OK("days_of_supply", "2"), "it orders, and nobody orders from it")
}

func TestBullwhip(t *testing.T) {
	p := shimtest.Start(t, scm.New())
	assert.Equal(t, "0", p.OK("bullwhip"))
	p.OK("create_contract", "a", "1", "2", "7", "10")
	assert.Equal(t, "1000", p.OK("bullwhip"), "one sells what one buys")
	p.OK("create_contract", "b", "1", "3", "7", "10")
	// Ordered from vendors 1, 2, 3: 20, 0, 0; by them: 0, 10, 10.
	assert.Equal(t, "250", p.OK("bullwhip"))
	assert.Zero(t, p.OpenQueries())
}

func TestWhatIsRefused(t *testing.T) {
	p := shimtest.Start(t, scm.New())
	p.OK("create_contract", "a", "1", "2", "7", "40")
	for _, args := range [][]string{
		{"create_contract", "a", "1", "2", "7", "40"}, {"create_contract", "b", "1", "1", "7", "40"}, {"create_contract", "b", "x", "1", "7", "40"},
		{"place_order", "a", "a", "1"}, {"place_order", "b", "nobody", "1"}, {"place_order", "b", "a", "-1"},
		{"update_order", "nobody", "1"}, {"update_order", "a", "x"}, {"days_of_supply", "x"}, {"days_of_supply"}, {"bullwhip", "1"},
	} {
		assert.Equal(t, int32(500), p.Invoke(args...).GetStatus(), args)
	}
}
