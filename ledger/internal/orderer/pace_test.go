package orderer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/setup"
)

// TestASourceIsWaitedForWhileItKeepsPace, and no longer: one that lies sends a byte now and then, or more than a block.
func TestASourceIsWaitedForWhileItKeepsPace(t *testing.T) {
	const grace, most = 20 * time.Second, 10 << 20
	for name, c := range map[string]struct {
		each     int           // bytes, each 100 ms
		verified time.Duration // after each of these a block is verified; 0: none is
		want     time.Duration // until it is left; 0: it is not
	}{
		"silent":               {want: grace},
		"a byte now and then":  {each: 1, want: grace},
		"half the pace":        {each: 6250, want: 40 * time.Second},
		"the pace":             {each: 12500, want: grace + most*slowByte},
		"ten times that":       {each: 125000, want: grace + most*slowByte},
		"little, but verified": {each: 1, verified: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				began := time.Now()
				p := newPace(grace, most, leave)
				defer p.stop()
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				verified := began
				for ctx.Err() == nil && time.Since(began) < 10*time.Minute {
					select {
					case <-ctx.Done():
					case <-tick.C:
						p.heard(c.each)
					}
					if c.verified > 0 && time.Since(verified) >= c.verified {
						p.again()
						verified = time.Now()
					}
				}
				if c.want == 0 {
					require.NoError(t, ctx.Err())
					return
				}
				assert.InDelta(t, c.want.Seconds(), time.Since(began).Seconds(), 1)
			})
		})
	}
}

// TestABlockComesOverSlowLinks where no other is faster: each attempt begins it anew.
func TestABlockComesOverSlowLinks(t *testing.T) {
	const rate, block, largest = 40 << 10, 2 << 20, 10<<20 + messageSlack
	synctest.Test(t, func(t *testing.T) {
		var own turns
		arrives := func(address string) bool {
			ctx, turn := own.begin(t.Context(), address, 1, largest)
			defer turn.end()
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for bytes := 0; bytes < block; bytes += rate / 10 {
				select {
				case <-ctx.Done():
					own.judge(address, context.Cause(ctx), largest)
					return false
				case <-tick.C:
					turn.heard(rate / 10)
				}
			}
			return true
		}
		began := time.Now()
		for !arrives("one") && !arrives("another") {
			require.Less(t, time.Since(began), 10*time.Minute)
		}
	})
}

// TestTheTimeOfASlowSourceGrowsOnlyWhileNoBlockComes from another one.
func TestTheTimeOfASlowSourceGrowsOnlyWhileNoBlockComes(t *testing.T) {
	const largest = 10<<20 + messageSlack
	var own turns
	for _, want := range []int{1, 2, 3, 3} {
		own.judge("slow", errSlow, largest)
		assert.Equal(t, want, own.slower["slow"])
	}
	for height, want := range []int{2, 1, 0, 0} {
		own.of("another", uint64(height+1))
		assert.Equal(t, want, own.slower["slow"])
	}
}

// withALargeBlock has a block of so many bytes, which comes from the second orderer's address at that rate. The third has none.
func withALargeBlock(t *testing.T, bytes, rate int) (*testCluster, *channel) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount = "block", 1 })
	c.start(0)
	stop := c.start(1)
	c.orderAt(0, strings.Repeat("x", bytes))
	stop()
	c.slowly(1, 0, rate)
	node := c.open(2)
	t.Cleanup(func() { require.NoError(t, node.close()) })
	return c, node.channels[ch]
}

// TestASlowLinkIsNoSilence: an orderer's newest block may take longer to come than one may be silent.
func TestASlowLinkIsNoSilence(t *testing.T) {
	t.Parallel()
	c, behind := withALargeBlock(t, 1<<20, 160<<10) // 6.4 s
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.Eventually(t, func() bool { // it is asked again, for longer
		newest, err := behind.newest(ctx, c.node(1).Address)
		return err == nil && newest != nil
	}, patience, time.Millisecond)
}

// trickle, in bytes a second, takes longer over a block of 1 MiB than any test waits.
const trickle = 5 << 10

// TestATrickleOfTheNewestBlockIsLeft for another source.
func TestATrickleOfTheNewestBlockIsLeft(t *testing.T) {
	t.Parallel()
	c, behind := withALargeBlock(t, 1<<20, trickle)
	trickles, other := c.node(1).Address, c.node(0).Address
	for _, own := range []*turns{&behind.turns, &behind.asked} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := behind.fetch(ctx, source{trickles, own}, seekNewest())
		require.ErrorIs(t, err, errLate)
		assert.Equal(t, []string{other, trickles}, own.sort([]string{trickles, other}))
	}
}

// TestATrickleOfABlockIsLeft, however long the turn is: the next orderer goes on.
func TestATrickleOfABlockIsLeft(t *testing.T) {
	t.Parallel()
	c, behind := withALargeBlock(t, 1<<20, trickle)
	trickles := c.node(1).Address
	for behind.turns.of(trickles, 1) < time.Minute {
		behind.turns.tooShort(trickles, behind.largest())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.ErrorIs(t, behind.catchUpFrom(ctx, trickles, 2), errSlow)
	assert.Equal(t, []string{c.node(0).Address, trickles}, behind.turns.sort([]string{trickles, c.node(0).Address}))
	require.NoError(t, behind.CatchUp(ctx, 2))
}
