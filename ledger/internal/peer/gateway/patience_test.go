package gateway

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd is clients of a window that has the fewest places.
type crowd struct {
	ctx       context.Context
	w         *window
	ids       int
	submitted int
	placed    int
}

func newCrowd(t *testing.T) *crowd {
	w := newWindow(500)
	w.places = leastPlaces
	return &crowd{ctx: t.Context(), w: w}
}

// endorsed is one proposal's way to its endorsement.
func (c *crowd) endorsed() (id string, ok bool) {
	if c.w.enter(c.ctx) != nil {
		return "", false
	}
	c.w.mu.Lock()
	c.ids++
	id = strconv.Itoa(c.ids)
	c.w.mu.Unlock()
	time.Sleep(time.Millisecond) // of the test's own clock, as all of these
	c.w.keep(id)
	return id, true
}

// submit has clients that take so long to sign, and whose transactions are committed after 10 ms.
func (c *crowd) submit(ctx context.Context, clients int, signing time.Duration) {
	for range clients {
		go func() {
			for ctx.Err() == nil {
				id, ok := c.endorsed()
				if !ok {
					return
				}
				time.Sleep(signing)
				placed := c.w.take(id)
				c.w.mu.Lock()
				c.submitted++
				if placed {
					c.placed++
				}
				c.w.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				if placed {
					c.w.leave()
				}
			}
		}()
	}
}

// waste has clients that never submit.
func (c *crowd) waste(ctx context.Context, clients int) {
	for range clients {
		go func() {
			for ctx.Err() == nil {
				_, _ = c.endorsed()
			}
		}()
	}
}

// during runs clients for a time, and says how many transactions were submitted and how many of these had their place.
func (c *crowd) during(d time.Duration, run func(context.Context)) (submitted, placed int) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.submitted, c.placed = 0, 0
	run(ctx)
	time.Sleep(d)
	cancel()
	time.Sleep(10 * submitPatience)
	synctest.Wait()
	return c.submitted, c.placed
}

// Each place that is held for half a second leaves the others 48 endorsements a second in all.
func TestWhoNeverSubmitsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.during(5*time.Second, func(ctx context.Context) { c.submit(ctx, 4, 2*time.Millisecond) })
		submitted, placed := c.during(10*time.Second, func(ctx context.Context) {
			c.waste(ctx, 40)
			c.submit(ctx, 4, 2*time.Millisecond)
		})
		assert.Greater(t, submitted, 1000)
		assert.Equal(t, submitted, placed, "who submits soon keeps its place")
		assert.Zero(t, c.w.inside)
	})
}

// A window learns how long clients take: they may be far away.
func TestAPlaceIsKeptAsLongAsClientsTakeToSign(t *testing.T) {
	for _, signing := range []time.Duration{2 * time.Millisecond, 80 * time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t)
			submitted, placed := c.during(time.Minute, func(ctx context.Context) { c.submit(ctx, 100, signing) })
			require.Greater(t, submitted, 1000)
			assert.Greater(t, placed, submitted*8/10, "%d submitted, clients take %s", submitted, signing)
			assert.Zero(t, c.w.inside)
			assert.Empty(t, c.w.endorsed)
		})
	}
}

// BenchmarkPlace is a transaction's way through a window in which nobody waits.
func BenchmarkPlace(b *testing.B) {
	w := newWindow(500)
	ids := make([]string, 1024)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := range b.N {
		id := ids[i%len(ids)]
		if err := w.enter(context.Background()); err != nil {
			b.Fatal(err)
		}
		w.keep(id)
		if w.take(id) {
			w.learn(valid)
			w.leave()
		}
	}
}
