package load

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells a person how a run goes, on stderr: one line that is rewritten
// on a terminal, a line per interval elsewhere.
type progress struct {
	out      io.Writer
	every    time.Duration // 0: silent
	terminal bool
}

func newProgress(out *os.File, every time.Duration) *progress {
	info, err := out.Stat()
	return &progress{out: out, every: every, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p *progress) say(line string) {
	if p.every > 0 {
		_, _ = fmt.Fprintln(p.out, line)
	}
}

// follow reports until ctx ends.
func (p *progress) follow(ctx context.Context, pace *pacer, rec *recorder) {
	if p.every <= 0 {
		return
	}
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	before, at := counters{}, pace.start
	for {
		select {
		case <-ctx.Done():
			if p.terminal {
				_, _ = fmt.Fprintln(p.out)
			}
			return
		case now := <-ticker.C:
			line, total := progressLine(pace, rec, before, now, now.Sub(at))
			before, at = total, now
			if p.terminal {
				_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", line)
			} else {
				_, _ = fmt.Fprintln(p.out, line)
			}
		}
	}
}

func progressLine(pace *pacer, rec *recorder, before counters, now time.Time, since time.Duration) (string, counters) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.series.advance(now)
	var last Second
	if n := len(rec.series.done); n > 0 {
		last = rec.series.done[n-1]
	}
	phase := "measuring"
	switch {
	case now.Before(pace.windowStart()):
		phase = "warming up"
	case !now.Before(pace.end()):
		phase = "draining"
	case !now.Before(pace.windowEnd()):
		phase = "cooling down"
	}
	total := rec.all
	tps := float64(total.committed-before.committed) / since.Seconds()
	return fmt.Sprintf("%3.0f/%.0f s  %-12s  %7.1f tps  p50 %.1f  p95 %.1f  p99 %.1f ms  committed %d  in flight %d  failed %d",
		now.Sub(pace.start).Seconds(), pace.end().Sub(pace.start).Seconds(), phase, tps,
		last.P50, last.P95, last.P99, total.committed, total.sent-total.committed-total.failed, total.failed), total
}
