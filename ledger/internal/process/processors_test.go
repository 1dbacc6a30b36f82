package process

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFairProcessors(t *testing.T) {
	for _, c := range []struct{ cores, nodes, want int }{
		{2, 7, 1}, {2, 5, 1}, {2, 4, 1}, {2, 3, 2}, {2, 1, 2}, {8, 7, 3}, {24, 7, 7}, {24, 200, 1}, {1, 1, 1}, {4, 0, 4},
	} {
		assert.Equal(t, c.want, FairProcessors(c.cores, c.nodes), "%d cores, %d nodes", c.cores, c.nodes)
	}
}

func TestTheEnvironmentHasTheLastWord(t *testing.T) {
	before := runtime.GOMAXPROCS(3)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "3")
	limitProcessors(2)
	assert.Equal(t, 3, runtime.GOMAXPROCS(0))
	t.Setenv("GOMAXPROCS", "")
	limitProcessors(0)
	assert.Equal(t, 3, runtime.GOMAXPROCS(0))
	limitProcessors(2)
	assert.Equal(t, 2, runtime.GOMAXPROCS(0))
}
