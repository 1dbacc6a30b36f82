package durable

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write makes a file of ten parts that take 2 ms each, and tells how long that took.
func write(t *testing.T, rest *Rest) time.Duration {
	t.Helper()
	began := time.Now()
	require.NoError(t, Replace(t.TempDir(), "file", rest, func(w *Writer) error {
		for range 10 {
			time.Sleep(2 * time.Millisecond)
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return err
			}
		}
		return nil
	}))
	return time.Since(began)
}

func TestWritingRestsAfterEachPartUntilItsTimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := NewRest(9)
		assert.Equal(t, 20*time.Millisecond, write(t, nil))
		assert.Equal(t, 20*time.Millisecond, write(t, rest), "it has not begun to count")
		ctx, cancel := context.WithCancel(t.Context())
		rest.During(ctx)
		assert.Equal(t, 200*time.Millisecond, write(t, rest))
		time.AfterFunc(47*time.Millisecond, cancel)
		// 4 ms until the first part leaves the buffer, 36 of rest, 2 for the next, 5 of its rest; then 7 parts of 2 ms.
		assert.Equal(t, 61*time.Millisecond, write(t, rest))
	})
}

func TestAHurriedFileRestsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := NewRest(9)
		rest.During(t.Context())
		rest.Hurry(true)
		assert.Equal(t, 20*time.Millisecond, write(t, rest))
		rest.Hurry(false)
		assert.Equal(t, 200*time.Millisecond, write(t, rest))
	})
}

func TestAFileIsSpreadByTheWorkOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := NewRest(9)
		rest.During(t.Context())
		rest.Spread(time.Hour)
		assert.Equal(t, 200*time.Millisecond, write(t, rest), "there was none")
		rest.Spread(400 * time.Millisecond)
		assert.Equal(t, 400*time.Millisecond, write(t, rest), "20 ms of work")
		rest.Spread(100 * time.Millisecond)
		assert.Equal(t, 200*time.Millisecond, write(t, rest), "it never rests less")
		rest.Hurry(true)
		rest.Spread(400 * time.Millisecond)
		assert.Equal(t, 20*time.Millisecond, write(t, rest))
		rest.Hurry(false)
		rest.Spread(400 * time.Millisecond)
		assert.Equal(t, 400*time.Millisecond, write(t, rest), "work counts in a hurry too")
		rest.Spread(time.Hour)
		assert.Equal(t, 9*longestRest+20*time.Millisecond, write(t, rest))
	})
}

func TestASlowPartRestsNoLongerThanIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := NewRest(9)
		rest.During(t.Context())
		began := time.Now()
		rest.after(time.Minute)
		assert.Equal(t, longestRest, time.Since(began))
	})
}
