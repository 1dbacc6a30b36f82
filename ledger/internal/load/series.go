package load

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Second is what finished in one second of a run, warm-up and drain included.
type Second struct {
	T      int     `json:"t"`    // seconds since the first transaction was due
	Unix   float64 `json:"unix"` // start of this second, for plots beside other records
	TPS    int64   `json:"tps"`  // valid commits
	Failed int64   `json:"failed"`
	P50    float64 `json:"p50_ms"` // latencies of the valid commits
	P95    float64 `json:"p95_ms"`
	P99    float64 `json:"p99_ms"`
}

// series collects one second at a time. Guarded by its recorder.
type series struct {
	start   time.Time
	current Second
	hist    *hdrhistogram.Histogram
	done    []Second
}

func newSeries(start time.Time) *series { return &series{start: start, hist: newHistogram()} }

// add takes results in the order in which they are reported; one that comes a
// moment late counts in the second that is open.
func (s *series) add(now time.Time, latency time.Duration, valid bool) {
	s.advance(now)
	if !valid {
		s.current.Failed++
		return
	}
	s.current.TPS++
	observe(s.hist, latency)
}

// advance closes the seconds before now, the empty ones too.
func (s *series) advance(now time.Time) {
	for t := int(now.Sub(s.start) / time.Second); s.current.T < t; {
		s.close()
	}
}

func (s *series) close() {
	s.current.Unix = float64(s.start.Add(time.Duration(s.current.T)*time.Second).UnixMilli()) / 1000
	if s.current.TPS > 0 {
		s.current.P50, s.current.P95, s.current.P99 = milliseconds(s.hist, 50), milliseconds(s.hist, 95), milliseconds(s.hist, 99)
		s.hist.Reset()
	}
	s.done = append(s.done, s.current)
	s.current = Second{T: s.current.T + 1}
}

func milliseconds(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1000
}

func writeSeries(w io.Writer, seconds []Second) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"t", "unix", "tps", "failed", "p50_ms", "p95_ms", "p99_ms"}}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }
	for _, s := range seconds {
		rows = append(rows, []string{
			strconv.Itoa(s.T), number(s.Unix), strconv.FormatInt(s.TPS, 10), strconv.FormatInt(s.Failed, 10),
			number(s.P50), number(s.P95), number(s.P99),
		})
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("timeseries: %w", err)
	}
	return nil
}
