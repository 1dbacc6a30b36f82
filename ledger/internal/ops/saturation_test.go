package ops

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOnlyWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Saturation
		for range 3 {
			s.Work()
			time.Sleep(2 * time.Second)
			s.Wait()
			time.Sleep(time.Hour)
		}
		assert.InDelta(t, 6, s.Seconds(), 1e-9)
	})
}

func TestSharedWorkAddsUp(t *testing.T) {
	var s Saturation
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 1000 {
				s.Add(time.Millisecond)
			}
		})
	}
	workers.Wait()
	assert.InDelta(t, 8, s.Seconds(), 1e-9)
}
