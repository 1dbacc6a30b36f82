package follow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

const second = time.Second

func at(block, tx uint64) chain.Position { return chain.Position{Block: block, Tx: tx} }

// TestABlockThatIsNotSealedInTimeIsWithheld, each block anew.
func TestABlockThatIsNotSealedInTimeIsWithheld(t *testing.T) {
	p := progress{patience: 5 * second}
	p.received(at(3, 0), 2*second)
	require.NoError(t, p.wait(time.Hour), "nothing is owed")
	p.received(at(3, 1), 2*second)
	require.NoError(t, p.wait(6*second))
	p.received(at(3, 9), 2*second) // more transactions are no seal
	require.NoError(t, p.wait(1*second))
	assert.Equal(t, errWithheld{3, "", 8 * second, 3}, p.wait(1*second))

	p.received(at(4, 1), 2*second)
	require.NoError(t, p.wait(7*second))
	p.received(at(5, 0), 2*second)
	require.NoError(t, p.wait(time.Hour))
}

// TestABlockThatAnotherOneHasIsWithheld, also by one that gives a little now and then.
func TestABlockThatAnotherOneHasIsWithheld(t *testing.T) {
	p := progress{patience: 5 * second, next: at(3, 0)}
	p.claims("witness", 2)
	require.NoError(t, p.wait(time.Hour), "the peer has that block")
	p.claims("witness", 100)
	for block := uint64(4); block <= 8; block++ {
		require.NoError(t, p.wait(1*second))
		p.received(at(block, 0), second)
		p.claims("other", 1000)
	}
	assert.Equal(t, errWithheld{100, "witness", 5500 * time.Millisecond, 8}, p.wait(1*second))

	p = progress{patience: 5 * second, next: at(3, 0)}
	p.claims("witness", 3)
	require.NoError(t, p.wait(4*second))
	p.received(at(4, 0), second)
	require.NoError(t, p.wait(time.Hour), "it came in time")
	p.claims("witness", 4)
	require.NoError(t, p.wait(5*second), "a claim of its own")
	require.Error(t, p.wait(1*second))
}

// TestAPeerThatIsBehindGetsThereOverASlowLink: each block that comes gives back of the time that was waited, as long as the
// peer gains on the channel.
func TestAPeerThatIsBehindGetsThereOverASlowLink(t *testing.T) {
	p := progress{patience: 5 * second, next: at(1, 0)}
	p.claims("witness", 10_000)
	sealed := uint64(10_000)
	for block := uint64(1); block <= 10_000; block++ {
		require.NoError(t, p.wait(10*time.Millisecond), "block %d", block)
		p.received(at(block+1, 0), 2*second)
		if block%500 == 0 {
			sealed += 400
			p.claims("other", sealed)
		}
	}

	p.claims("witness", 20_000)
	require.NoError(t, p.wait(5*second), "nothing was saved up before it")
	require.Error(t, p.wait(time.Millisecond))
}

// TestWhoGivesBlocksMoreSlowlyThanTheChannelHasThemWithholds, and so does one who stops after many, or gives many at once
// before it is slow.
func TestWhoGivesBlocksMoreSlowlyThanTheChannelHasThemWithholds(t *testing.T) {
	drip := func(burst uint64, each time.Duration, sealed uint64) (blocks uint64, err error) {
		p := progress{patience: 5 * second, next: at(1, 0)}
		p.claims("witness", 10_000)
		p.received(at(burst+1, 0), 2*second)
		for blocks = uint64(1); burst+blocks < 10_000; blocks++ {
			if err = p.wait(each); err != nil {
				return blocks, err
			}
			p.received(at(burst+blocks+1, 0), 2*second)
			p.claims("other", 10_000+sealed*blocks)
		}
		return blocks, p.wait(6 * second)
	}
	for name, c := range map[string]struct {
		burst  uint64 // of blocks, right after the claim
		each   time.Duration
		sealed uint64 // by the others, while it gives one
		blocks uint64 // that it gives after the burst
	}{
		"slower than the channel":          {0, 200 * time.Millisecond, 2, 27},
		"as slowly":                        {0, 200 * time.Millisecond, 1, 27},
		"slower than a channel that idles": {0, 2 * second, 0, 5},
		"stops":                            {0, 10 * time.Millisecond, 0, 10_000},
		"slower after many at once":        {3000, second, 2, 8},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, err := drip(c.burst, c.each, c.sealed)
			assert.ErrorAs(t, err, &errWithheld{})
			assert.Equal(t, c.blocks, blocks)
		})
	}
}

// TestWhoIsFasterThanTheChannelNowAndThenWithholds where it gives fewer blocks than the channel has in all.
func TestWhoIsFasterThanTheChannelNowAndThenWithholds(t *testing.T) {
	p := progress{patience: 5 * second, next: at(1, 0)}
	p.claims("witness", 10_000)
	next, sealed := uint64(1), uint64(10_000)
	give := func(blocks uint64) {
		next += blocks
		p.received(at(next, 0), 2*second)
	}
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = p.wait(1 * second)
		switch {
		case n%10 == 4:
			give(1001)
		case n%10 > 4:
			give(10)
		}
		if n%5 == 4 {
			sealed += 1000
			p.claims("other", sealed)
			give(10)
		}
	}
	assert.ErrorAs(t, err, &errWithheld{})
	assert.Less(t, n, 20)
}
