package marbles_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/contracts/marbles"
	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
)

func bag(t *testing.T) *shimtest.Peer {
	t.Helper()
	p := shimtest.Start(t, marbles.New())
	p.OK("initMarble", "m1", "blue", "5", "alice")
	p.OK("initMarble", "m2", "red", "5", "alice")
	p.OK("initMarble", "m3", "blue", "5", "alice")
	return p
}

func TestRecordsAreThoseOfFabricsSample(t *testing.T) {
	p := bag(t)
	const m1, m2 = `{"docType":"marble","name":"m1","color":"blue","size":5,"owner":"alice"}`, `{"docType":"marble","name":"m2","color":"red","size":5,"owner":"alice"}`
	assert.Equal(t, m1, p.OK("readMarble", "m1"))
	assert.Equal(t, `[{"Key":"m1","Record":`+m1+`},{"Key":"m2","Record":`+m2+`}]`, p.OK("getMarblesByRange", "m1", "m3"))
	_, event := p.InvokeSigned(nil, "initMarble", "m4", "green", "1", "bob")
	assert.Equal(t, "initMarble m4", event.GetEventName()+" "+string(event.GetPayload()))
}

func TestMarblesChangeHands(t *testing.T) {
	p := bag(t)
	p.OK("transferMarble", "m2", "bob")
	assert.Contains(t, p.OK("readMarble", "m2"), `"owner":"bob"`)
	assert.Equal(t, `["m1","m3"]`, p.OK("transferMarblesBasedOnColor", "blue", "zoe"))
	assert.Contains(t, p.OK("readMarble", "m3"), `"owner":"zoe"`)
	p.OK("delete", "m3")
	assert.Equal(t, `["m1"]`, p.OK("transferMarblesBasedOnColor", "blue", "eve"), "the index forgets it, too")
	assert.Equal(t, `[]`, p.OK("transferMarblesBasedOnColor", "black", "eve"))
	assert.Zero(t, p.OpenQueries())
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	p := bag(t)
	before := p.State()
	for _, c := range []struct {
		args []string
		want error
	}{
		{[]string{"initMarble", "m1", "blue", "5", "bob"}, record.ErrExists},
		{[]string{"initMarble", "m9", "blue", "big", "bob"}, record.ErrArguments},
		{[]string{"initMarble", "", "blue", "5", "bob"}, record.ErrArguments},
		{[]string{"initMarble", "m9"}, record.ErrArguments},
		{[]string{"readMarble", "m9"}, record.ErrNotFound},
		{[]string{"transferMarble", "m9", "bob"}, record.ErrNotFound},
		{[]string{"delete", "m9"}, record.ErrNotFound},
	} {
		response := p.Invoke(c.args...)
		assert.Equal(t, int32(500), response.GetStatus(), c.args)
		assert.Contains(t, response.GetMessage(), c.want.Error(), c.args)
	}
	assert.Equal(t, before, p.State())
}
