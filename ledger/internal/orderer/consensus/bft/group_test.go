package bft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Any two quorums share a correct member, and the correct ones are a quorum by themselves.
func TestQuorums(t *testing.T) {
	for n := 1; n <= 100; n++ {
		g := Group{Members: make([]ID, n)}
		f, q := g.Faulty(), g.Quorum()
		require.LessOrEqual(t, 3*f+1, n)
		require.Greater(t, 3*(f+1)+1, n)
		require.GreaterOrEqual(t, 2*q-n, f+1, "n=%d", n)
		require.LessOrEqual(t, q, n-f, "n=%d", n)
		require.Less(t, 2*(q-1)-n, f+1, "n=%d: a smaller one would do", n)
	}
}
