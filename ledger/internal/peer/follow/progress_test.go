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
	assert.Equal(t, errWithheld{100, "witness", 6 * second, 8}, p.wait(1*second))

	p = progress{patience: 5 * second, next: at(3, 0)}
	p.claims("witness", 3)
	require.NoError(t, p.wait(4*second))
	p.received(at(4, 0), second)
	require.NoError(t, p.wait(time.Hour), "it came in time")
	p.claims("witness", 4)
	require.NoError(t, p.wait(5*second), "a claim of its own")
	require.Error(t, p.wait(1*second))
}
