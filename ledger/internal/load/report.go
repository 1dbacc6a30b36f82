package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// About is what was measured.
type About struct {
	System    string   `json:"system"` // ledger, cassandra, mysql or mariadb
	Channel   string   `json:"channel"`
	Chaincode string   `json:"chaincode"`
	Workload  string   `json:"workload"`
	Peers     []string `json:"peers"`
	Seed      uint64   `json:"seed"`
}

// Result is what a run found, as `--json` writes it.
type Result struct {
	About

	Loop string `json:"loop"` // open | closed

	IntendedRate float64 `json:"intended_rate"` // per second; 0 in a closed loop
	AchievedRate float64 `json:"achieved_rate"` // transactions sent per second of the window
	Workers      int     `json:"workers"`       // clients of a closed loop, bound in flight of an open one

	Started     time.Time `json:"started"` // start of the measured window
	Seconds     float64   `json:"seconds"` // its length, up to an interrupt
	Interrupted bool      `json:"interrupted"`

	Throughput float64 `json:"throughput_tps"` // valid commits inside the window, per second
	Sent       int64   `json:"sent"`           // due inside the window
	Committed  int64   `json:"committed"`      // of these, valid
	Failed     int64   `json:"failed"`
	Unsent     int64   `json:"unsent"` // due inside the window, never sent: all workers were busy until its end

	Lost    int64 `json:"lost_answers"` // writes whose answer was lost; what was found out about them is counted
	Unknown int64 `json:"unknown"`      // of these, those of which nothing could be found out: they are failed

	Longest float64 `json:"longest_ms"` // until any outcome, a failure too, of what was due inside the window

	Latency   Latency            `json:"latency_ms"` // of what was committed
	Kinds     map[string]Kind    `json:"kinds"`      // by the function that was called
	Stages    map[string]Latency `json:"stages_ms"`  // of a ledger's transactions
	Failures  []Failure          `json:"failures"`
	Breakdown *Breakdown         `json:"breakdown,omitempty"`
	CPU       CPU                `json:"cpu"`
	Series    []Second           `json:"timeseries"`
}

// Kind is one kind of operation.
type Kind struct {
	Committed int64   `json:"committed"` // valid, due inside the window
	Latency   Latency `json:"latency_ms"`
}

// Latency sums up a histogram, in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P25  float64 `json:"p25"`
	P50  float64 `json:"p50"`
	P75  float64 `json:"p75"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Failure counts one way to fail: a stage with a gRPC code, or at the commit a
// validation code, and the first thing that was said about it.
type Failure struct {
	Stage   string `json:"stage"`
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example,omitempty"`
}

// CPU is what the load generator itself used, from the end of the warm-up on.
type CPU struct {
	UserSeconds float64 `json:"user_s"`
	SysSeconds  float64 `json:"sys_s"`
	PerCommit   float64 `json:"ms_per_commit"`
}

func newResult(p *pacer, rec *recorder, cpu CPU, ended time.Time, interrupted bool) *Result {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.series.advance(ended)
	rec.series.close()
	if rec.warm > 0 {
		cpu.PerCommit = (cpu.UserSeconds + cpu.SysSeconds) * 1000 / float64(rec.warm)
	}
	r := &Result{
		Loop: "closed", IntendedRate: p.rate, Workers: p.workers, Started: rec.windowStart.UTC(), Interrupted: interrupted,
		Sent: rec.sent, Committed: rec.committed, Unsent: max(0, p.dueBy(rec.windowEnd)-p.dueBy(rec.windowStart)-rec.sent),
		Lost: rec.lost, Unknown: rec.unknown, Kinds: map[string]Kind{},
		Longest: float64(rec.longest) / float64(time.Millisecond),
		Latency: summarize(rec.total), Stages: map[string]Latency{}, CPU: cpu, Series: rec.series.done,
	}
	if p.rate > 0 {
		r.Loop = "open"
	}
	// An interrupt may come before the warm-up is over: then nothing was measured.
	if window := rec.windowEnd.Sub(rec.windowStart).Seconds(); window > 0 {
		r.Seconds = window
		r.Throughput = float64(rec.inWindow) / window
		r.AchievedRate = float64(rec.sent) / window
	}
	for name, h := range rec.stages {
		r.Stages[string(name)] = summarize(h)
	}
	for name, h := range rec.kinds {
		r.Kinds[name] = Kind{h.TotalCount(), summarize(h)}
	}
	r.Failures, r.Failed = rec.failureList()
	return r
}

func summarize(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	return Latency{
		Mean: h.Mean() / 1000, Min: float64(h.Min()) / 1000,
		P25: milliseconds(h, 25), P50: milliseconds(h, 50), P75: milliseconds(h, 75), P95: milliseconds(h, 95), P99: milliseconds(h, 99),
		P999: milliseconds(h, 99.9), Max: float64(h.Max()) / 1000,
	}
}

// WriteJSON writes it for programs.
func (r *Result) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// WriteText writes it for people.
func (r *Result) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%s %s on %s, %s loop", r.Chaincode, r.Workload, r.Channel, r.Loop)
	if r.IntendedRate > 0 {
		text += fmt.Sprintf(" at %.1f tps (achieved %.1f)", r.IntendedRate, r.AchievedRate)
	} else {
		text += fmt.Sprintf(", %d clients", r.Workers)
	}
	text += fmt.Sprintf(", %.1f s", r.Seconds)
	if r.Interrupted {
		text += ", interrupted"
	}
	text += fmt.Sprintf("\n\nthroughput  %.1f tps   committed %d   failed %d   unsent %d\n", r.Throughput, r.Committed, r.Failed, r.Unsent)
	text += fmt.Sprintf("client CPU  %.2f s user + %.2f s sys, %.3f ms per commit\n\n", r.CPU.UserSeconds, r.CPU.SysSeconds, r.CPU.PerCommit)
	text += fmt.Sprintf("%-10s %9s %9s %9s %9s %9s %9s\n", "ms", "mean", "p50", "p95", "p99", "p99.9", "max")
	text += latencyRow("total", r.Latency)
	for _, s := range []stage{stageEndorse, stageSubmit, stageCommit} {
		if l, ok := r.Stages[string(s)]; ok {
			text += latencyRow(string(s), l)
		}
	}
	text += kindsText(r.Kinds)
	if r.Lost > 0 {
		text += fmt.Sprintf("\nanswers lost %d, of which %d were not found out\n", r.Lost, r.Unknown)
	}
	text += r.Breakdown.text()
	if len(r.Failures) > 0 {
		text += "\n"
	}
	for _, f := range r.Failures {
		text += fmt.Sprintf("failed at %-8s %-28s %7d  %s\n", f.Stage, f.Code, f.Count, f.Example)
	}
	_, err := io.WriteString(w, text)
	return err
}

// kindsText shows each kind as a box plot does.
func kindsText(kinds map[string]Kind) string {
	text := fmt.Sprintf("\n%-24s %9s %9s %9s %9s %9s %9s\n", "ms, by kind", "count", "min", "p25", "p50", "p75", "max")
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		l := kinds[name].Latency
		text += fmt.Sprintf("%-24s %9d %9.3f %9.3f %9.3f %9.3f %9.3f\n", name, kinds[name].Committed, l.Min, l.P25, l.P50, l.P75, l.Max)
	}
	return text
}

func latencyRow(name string, l Latency) string {
	return fmt.Sprintf("%-10s %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n", name, l.Mean, l.P50, l.P95, l.P99, l.P999, l.Max)
}
