package consensus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ops"
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
		families, err := registry.Gather()
		require.NoError(t, err)
		shown := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				require.Equal(t, "ch", m.Label[0].GetValue())
				shown[f.GetName()+" "+m.Label[1].GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		assert.Equal(t, float64(items-1), shown["qioi_orderer_queue_depth replicate"])
		assert.Equal(t, float64(items), shown["qioi_orderer_queue_items_total replicate"])
		assert.Equal(t, float64(items), shown["qioi_orderer_queue_items_total proposals"])
		assert.Positive(t, shown["qioi_orderer_queue_wait_seconds_total replicate"])
		assert.Len(t, shown, 5, "the orderer shows how many proposals wait of every consenter")
	}
}
