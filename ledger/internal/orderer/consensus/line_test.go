package consensus

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
)

// TestALineKnowsForHowLongItemsWait, of which one that there is no room for is none.
func TestALineKnowsForHowLongItemsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine[string](3)
		assert.Empty(t, l.Rest(nil))
		require.True(t, l.Put("a"))
		time.Sleep(time.Second)
		require.True(t, l.Put("b"))
		require.True(t, l.Put("c"))
		require.False(t, l.Put("lost"))
		assert.Equal(t, 3, l.Len())
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Length: 3, Came: 3, Waited: 4 * time.Second}, l.Stands())
		assert.Equal(t, []string{"a", "b", "c"}, l.Rest([]string{<-l.C()}))
		require.True(t, l.Put("d"))
		time.Sleep(time.Second)
		assert.Equal(t, "d", <-l.C())
		l.Taken()
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Came: 4, Waited: 5 * time.Second}, l.Stands())
	})
}

// TestAQueueIsShownOfTheConsenterThatIsOpen: one that is opened again begins anew.
func TestAQueueIsShownOfTheConsenterThatIsOpen(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, items := range []int{2, 5} {
		var tally Tally
		tally.Put(items)
		tally.Begin(1)
		ShowQueue(registry, "ch", "replicate", tally.Stands)
		ShowWaits(registry, "ch", "proposals", tally.Stands)
		shown := func(name, queue string) float64 {
			return opstest.Value(t, registry, "qioi_orderer_queue_"+name, `channel="ch"`, fmt.Sprintf("queue=%q", queue))
		}
		assert.Equal(t, float64(items-1), shown("depth", "replicate"))
		assert.Equal(t, float64(items), shown("items_total", "replicate"))
		assert.Equal(t, float64(items), shown("items_total", "proposals"))
		assert.Positive(t, shown("wait_seconds_total", "replicate"))
		assert.Positive(t, shown("wait_seconds_total", "proposals"))
		assert.Len(t, opstest.Series(t, registry), 5, "the orderer shows how many proposals wait of every consenter")
	}
}
