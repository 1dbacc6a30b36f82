package cutter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
)

// Commands: `new count=N bytes=N` starts; `add` takes one transaction a line, its
// size and perhaps the word config, or the word timeout. The output shows the
// blocks as bracketed sizes; what is still open has no closing bracket.
func TestCutter(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var c *Cutter
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				var count, bytes int
				d.ScanArgs(t, "count", &count)
				d.ScanArgs(t, "bytes", &bytes)
				c = New(count, bytes)
				return ""
			case "add":
				return run(t, c, d.Input)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

func run(t *testing.T, c *Cutter, input string) string {
	var out strings.Builder
	open := c.count > 0
	if open {
		out.WriteString("[…")
	}
	closeBlock := func() {
		if open {
			out.WriteString(" ]\n")
			open = false
		}
	}
	for _, line := range strings.Split(input, "\n") {
		if line == "timeout" {
			c.Cut()
			closeBlock()
			continue
		}
		var size int
		if _, err := fmt.Sscanf(line, "%d", &size); err != nil {
			t.Fatalf("line %q: %s", line, err)
		}
		before, after := c.Add(size, strings.HasSuffix(line, "config"))
		if before {
			closeBlock()
		}
		if !open {
			out.WriteString("[")
			open = true
		}
		fmt.Fprintf(&out, " %d", size)
		if after {
			closeBlock()
		}
	}
	return out.String()
}

// A slow, obvious statement of the same rules: the block's whole content is looked at anew.
func slowCut(sizes []int, configs []bool, maxCount, preferred int) [][]int {
	var blocks [][]int
	var open []int
	total := func() (sum int) {
		for _, s := range open {
			sum += s
		}
		return sum
	}
	flush := func() {
		if len(open) > 0 {
			blocks = append(blocks, open)
			open = nil
		}
	}
	for i, size := range sizes {
		switch {
		case configs[i] || size > preferred:
			flush()
			open = []int{size}
			flush()
		default:
			if total()+size > preferred {
				flush()
			}
			open = append(open, size)
			if len(open) == maxCount {
				flush()
			}
		}
	}
	flush()
	return blocks
}

func TestCutterAgreesWithTheSlowOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		maxCount, preferred := 1+rng.IntN(6), 1+rng.IntN(50)
		var sizes []int
		var configs []bool
		for range rng.IntN(60) {
			sizes = append(sizes, 1+rng.IntN(60))
			configs = append(configs, rng.IntN(10) == 0)
		}
		var blocks [][]int
		var open []int
		c := New(maxCount, preferred)
		for i, size := range sizes {
			before, after := c.Add(size, configs[i])
			if before {
				blocks, open = append(blocks, open), nil
			}
			open = append(open, size)
			if after {
				blocks, open = append(blocks, open), nil
			}
			assert.Equal(t, len(open), c.count)
		}
		if len(open) > 0 {
			blocks = append(blocks, open)
		}
		assert.Equal(t, slowCut(sizes, configs, maxCount, preferred), blocks)
	}
}
