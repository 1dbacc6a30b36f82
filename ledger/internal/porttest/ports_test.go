package porttest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNobodyGetsThePortsOfAnother(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		base := Take(t)
		assert.False(t, seen[base], "although nothing listens on them")
		seen[base] = true
	}
	t.Run("until it ends", func(t *testing.T) {
		for base := range seen {
			_, err := listen(base + Size)
			assert.Error(t, err)
		}
	})
}
