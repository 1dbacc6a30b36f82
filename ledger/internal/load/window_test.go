package load

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWindowEndsWhereItIsInterrupted(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	after := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for name, c := range map[string]struct {
		plan         plan
		cut          float64 // seconds; 0: it is not
		seconds      float64
		sent, unsent int64
	}{
		"not at all":    {plan{rate: 10, duration: 100 * time.Second}, 0, 100, 3, 997},
		"amid":          {plan{rate: 10, duration: 100 * time.Second}, 20, 20, 3, 197},
		"in bursts":     {plan{rate: 10, burst: 40, duration: 100 * time.Second}, 21, 21, 3, 237},
		"after its end": {plan{rate: 10, duration: 15 * time.Second, cooldown: time.Hour}, 40, 15, 3, 147},
		"warm-up":       {plan{rate: 10, warmup: time.Hour, duration: time.Hour}, 20, 0, 0, 0},
		"closed loop":   {plan{duration: 100 * time.Second}, 20, 20, 3, 0},
	} {
		p := &pacer{plan: c.plan, start: start}
		rec := newRecorder(start, c.plan)
		for range 3 {
			rec.send(start)
		}
		if c.cut > 0 {
			rec.cut(after(c.cut))
		}
		for _, done := range []float64{10, 12, 30} { // the last one after the interrupt
			rec.finish(outcome{}, newCall("create", "a"), start, after(done))
		}
		r := newResult(p, rec, CPU{}, after(40), c.cut > 0)
		assert.InDelta(t, c.seconds, r.Seconds, 1e-9, name)
		assert.Equal(t, c.sent, r.Sent, name)
		assert.Equal(t, c.unsent, r.Unsent, name)
		if c.cut > 0 && c.seconds > 0 {
			assert.InDelta(t, 2/c.seconds, r.Throughput, 1e-9, name)
		}
	}
}

// TestTheLongestWaitIsForAnyOutcome: a client that is told late that its transaction failed has waited too.
func TestTheLongestWaitIsForAnyOutcome(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	p := plan{warmup: time.Second, duration: 10 * time.Second}
	due := start.Add(2 * time.Second)
	rec := newRecorder(start, p)
	rec.finish(outcome{}, newCall("create", "a"), start, start.Add(9*time.Second)) // due in the warm-up
	rec.finish(outcome{}, newCall("create", "a"), due, due.Add(50*time.Millisecond))
	rec.finish(outcome{failedAt: stageSubmit, code: "UNAVAILABLE"}, newCall("create", "a"), due, due.Add(1400*time.Millisecond))
	r := newResult(&pacer{plan: p, start: start}, rec, CPU{}, due.Add(time.Hour), false)
	assert.InDelta(t, 50, r.Latency.Max, 0.1)
	assert.InDelta(t, 1400, r.Longest, 1e-9)
}

// TestAnInterruptedBacklogIsUnsent: nothing is sent while the first transaction is under way, before the interrupt and in
// the drain after it.
func TestAnInterruptedBacklogIsUnsent(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	g := &fakeGateway{delay: func() time.Duration {
		time.Sleep(500 * time.Millisecond)
		interrupt()
		return 500 * time.Millisecond
	}}
	r, err := execute(ctx, t, "--network", startNetwork(t, g), "--rate", "100", "--max-in-flight", "1", "--timeout", "1m", "--warmup", "0s",
		"--duration", "1h")
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.Equal(t, int64(1), r.Committed)
	assert.GreaterOrEqual(t, r.Unsent, int64(48), "what was due in 500 ms")
	assert.InDelta(t, r.Seconds*100, float64(r.Sent+r.Unsent), 1, "what is due in the drain would not have been sent")
	assert.Zero(t, r.Throughput, "its commit came after the window")
}
