package follow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var addresses = []string{"a", "b", "c"}

func picked(t *testing.T, c *choice) string {
	t.Helper()
	address, err := c.pick(addresses)
	require.NoError(t, err)
	return address
}

func TestLiarsArePassedOver(t *testing.T) {
	c := newChoice(4, second)
	c.liars["c"] = true
	assert.Equal(t, []string{"b", "a", "b"}, []string{picked(t, c), picked(t, c), picked(t, c)})
	assert.False(t, c.trusted("c", time.Now()))
	c.liars["a"], c.liars["b"] = true, true
	_, err := c.pick(addresses)
	require.ErrorContains(t, err, "3 orderers tried")
}

// TestWhoSaysThatItHasABlockIsFollowedForIt, and is believed no more where it does not give the block.
func TestWhoSaysThatItHasABlockIsFollowedForIt(t *testing.T) {
	now := time.Now()
	c := newChoice(0, second)
	require.Equal(t, "a", picked(t, c))
	c.suspect("a", errWithheld{block: 7, witness: "c"}, addresses, now)
	assert.False(t, c.trusted("a", now))
	assert.True(t, c.trusted("a", now.Add(suspectedFor*second+1)))
	require.Equal(t, "c", picked(t, c))
	block, owes := c.owed("c")
	assert.True(t, owes)
	assert.EqualValues(t, 7, block)
	_, owes = c.owed("c")
	assert.False(t, owes, "it is said once")

	c.suspect("c", errWithheld{block: 7, witness: "c"}, addresses, now)
	assert.False(t, c.trusted("c", now))
	assert.True(t, c.trusted("a", now), "its accuser has said what is not so")
	require.Equal(t, "a", picked(t, c))
	_, owes = c.owed("a")
	assert.False(t, owes)
}

func TestSuspicionAndPatienceGrow(t *testing.T) {
	now := time.Now()
	c := newChoice(0, second)
	assert.Equal(t, second, c.patienceNow())
	for times := range 20 {
		c.suspect("a", errWithheld{next: 7}, addresses, now)
		until := now.Add(suspectedFor * second << min(times, mostDoublings))
		assert.False(t, c.trusted("a", until))
		assert.True(t, c.trusted("a", until.Add(1)))
		assert.Equal(t, min(second<<(times+1), mostPatience*second), c.patienceNow(), times)
	}
	c.suspect("a", errWithheld{next: 8}, addresses, now)
	assert.Equal(t, 2*second, c.patienceNow(), "a block has come since")
}

// TestASealOfAnotherChannelSpoilsNoPatience: a liar that orders a longer channel, too, may show its newest header, which names
// no channel. Once this channel's next block has come, an orderer that withholds is left as soon as ever.
func TestASealOfAnotherChannelSpoilsNoPatience(t *testing.T) {
	now := time.Now()
	c := newChoice(0, second)
	withholds := func(next, sealed uint64) errWithheld {
		p := progress{patience: second}
		p.received(at(next, 0), second)
		p.claims("liar", sealed)
		var why errWithheld
		require.ErrorAs(t, p.wait(2*second), &why)
		return why
	}
	for times := range 2 {
		c.suspect("a", withholds(10, 1_000_000), addresses, now)
		assert.Equal(t, second<<(times+1), c.patienceNow())
	}
	c.suspect("a", withholds(11, 11), addresses, now)
	assert.Equal(t, 2*second, c.patienceNow(), "a block has come since")
	c.suspect("a", withholds(11, 12), addresses, now)
	assert.Equal(t, 4*second, c.patienceNow(), "none has come, though there are more")
}

// TestWhoWasFollowedWhenABlockWasTakenBack is named by nobody for a while, longer each time: the leader that lies would be
// followed again at once.
func TestWhoWasFollowedWhenABlockWasTakenBack(t *testing.T) {
	now := time.Now()
	c := newChoice(0, second)
	for times := range 3 {
		c.avoid("a", now)
		pause := suspectedFor * second << times
		assert.False(t, c.trusted("a", now.Add(pause)))
		now = now.Add(pause + 1)
		assert.True(t, c.trusted("a", now))
	}
	assert.Equal(t, "a", picked(t, c), "it is asked in its turn")
}
