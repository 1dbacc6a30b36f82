package ops

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestItemsWaitUntilTheyAreBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Waits
		began := time.Now()
		w.Put(1)
		time.Sleep(time.Second)
		w.Put(2)
		time.Sleep(time.Second)
		assert.Equal(t, Stood{Length: 3, Came: 3, Waited: 4 * time.Second}, w.Stands(), "what still waits counts")
		w.Begin(2)
		time.Sleep(time.Second)
		w.Begin(1)
		time.Sleep(time.Hour)
		assert.Equal(t, Stood{Came: 3, Waited: 5 * time.Second}, w.Stands())
		assert.Equal(t, time.Hour+3*time.Second, time.Since(began))
	})
}
