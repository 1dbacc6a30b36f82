package zipf_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/zipf"
)

// steps is how finely the numbers to draw by are divided.
const steps = 1 << 40

// upTo is the share of all numbers by which one of the first things is drawn, where a larger number draws none before.
func upTo(law *zipf.Law, things int) float64 {
	return float64(sort.Search(steps, func(i int) bool { return law.Draw(float64(i)/steps) >= things })) / steps
}

// TestTheLaw compares how likely one of the first things is with the exact distribution, for as many as there are.
func TestTheLaw(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 1000, 10_000} {
		for _, exponent := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999} {
			t.Run(fmt.Sprintf("%d things, %g", n, exponent), func(t *testing.T) {
				law := zipf.New(n, exponent)
				var zeta, due, off float64
				for i := range n {
					zeta += math.Pow(float64(i+1), -exponent)
				}
				for i := range n {
					due += math.Pow(float64(i+1), -exponent) / zeta
					drawn := upTo(law, i+1)
					if i < 2 {
						assert.InDelta(t, due, drawn, 1e-9, "the first %d", i+1)
					}
					off = max(off, math.Abs(due-drawn))
				}
				assert.Less(t, off, 0.02) // the closed form is off where the first few are many of all draws
				assert.Equal(t, n-1, law.Draw(math.Nextafter(1, 0)), "the last one is drawn too, and nothing beyond")
			})
		}
	}
}

// TestALargerNumberDrawsNoThingBefore, which is what TestTheLaw searches by.
func TestALargerNumberDrawsNoThingBefore(t *testing.T) {
	for _, n := range []int{1, 2, 3, 1000} {
		for _, exponent := range []float64{0, 0.5, 0.99} {
			law, drawn := zipf.New(n, exponent), make([]int, 100_000)
			for i := range drawn {
				drawn[i] = law.Draw(float64(i) / float64(len(drawn)))
			}
			assert.True(t, slices.IsSorted(drawn), "%d things, %g", n, exponent)
		}
	}
}
