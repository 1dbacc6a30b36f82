package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qioi/qioi/ledger/internal/network"
)

// Breakdown is where the time went by the nodes' own metrics, from the end of the warm-up
// until the last result was known.
type Breakdown struct {
	Stages  []StageTimes `json:"stages"`
	Busy    []Busy       `json:"busy"`
	Missing []string     `json:"missing_nodes,omitempty"` // did not answer, or were restarted meanwhile
}

// StageTimes is one stage at all nodes that do it. Each observation is one transaction at
// one node, its waiting there included; milliseconds.
type StageTimes struct {
	Stage    string  `json:"stage"`
	Count    int64   `json:"count"`
	Mean     float64 `json:"mean_ms"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	InFlight float64 `json:"mean_in_flight"` // transactions in the stage at once, of all nodes together
}

// Busy is the share of the time that a stage worked at the node where it worked most: at 1
// it cannot do more. Signatures are verified by as many workers as the node has processors.
type Busy struct {
	Stage string  `json:"stage"`
	Node  string  `json:"node"`
	Share float64 `json:"share"`
}

// The stages of a transaction, and the histogram that tells of each.
var stageSources = []struct {
	stage, family string
	labels        []label
}{
	{"endorse", "endorser_proposal_duration", nil},
	{"order", "broadcast_enqueue_duration", []label{{"status", "SUCCESS"}}},
	{"validate", "qioi_pipeline_stage_seconds", []label{{"stage", "validate"}}},
	{"flush", "qioi_pipeline_stage_seconds", []label{{"stage", "flush"}}},
}

// What works, and the counter of its working time.
var busySources = []struct {
	stage, family string
	labels        []label
}{
	{"order", "qioi_orderer_busy_seconds_total", nil},
	{"verify", "qioi_pipeline_busy_seconds_total", []label{{"stage", "verify"}}},
	{"commit", "qioi_pipeline_busy_seconds_total", []label{{"stage", "commit"}}},
	{"flush", "qioi_pipeline_busy_seconds_total", []label{{"stage", "flush"}}},
}

// observer asks a channel's peers and orderers.
type observer struct {
	channel string
	nodes   []network.Node
}

func newObserver(net *description, channel string) *observer {
	nodes := slices.Clone(net.Nodes)
	nodes = slices.DeleteFunc(nodes, func(n network.Node) bool {
		return n.Operations == "" || n.Role != "peer" && n.Role != "orderer"
	})
	return &observer{channel: channel, nodes: nodes}
}

// watch returns a function that tells what happened since from. A nil observer watches nothing.
func (o *observer) watch(ctx context.Context, from time.Time) func() *Breakdown {
	if o == nil {
		return func() *Breakdown { return nil }
	}
	type sample struct {
		at    time.Time
		pages []page
	}
	take := func() sample { return sample{time.Now(), scrape(context.WithoutCancel(ctx), o.nodes)} }
	base := make(chan sample, 1)
	go func() {
		sleep(ctx, time.Until(from))
		base <- take()
	}()
	return func() *Breakdown {
		after := take()
		before := <-base
		return o.compare(before.pages, after.pages, after.at.Sub(before.at))
	}
}

// compare tells what happened between two looks at the nodes.
func (o *observer) compare(before, after []page, elapsed time.Duration) *Breakdown {
	b := &Breakdown{Stages: []StageTimes{}, Busy: []Busy{}}
	there := make([]bool, len(o.nodes))
	for i, node := range o.nodes {
		there[i] = before[i] != nil && after[i] != nil && startOf(before[i]) == startOf(after[i])
		if !there[i] {
			b.Missing = append(b.Missing, node.Name)
		}
	}
	ours := label{"channel", o.channel}
	for _, source := range stageSources {
		var all buckets
		for i := range o.nodes {
			if !there[i] {
				continue
			}
			labels := append(source.labels, ours)
			for _, metric := range after[i].series(source.family, labels...) {
				all.add(metric.GetHistogram(), 1)
			}
			for _, metric := range before[i].series(source.family, labels...) {
				all.add(metric.GetHistogram(), -1)
			}
		}
		if all.total > 0 {
			b.Stages = append(b.Stages, all.times(source.stage, elapsed))
		}
	}
	for _, source := range busySources {
		most := Busy{Stage: source.stage}
		for i, node := range o.nodes {
			if !there[i] {
				continue
			}
			labels := append(source.labels, ours)
			share := (after[i].counter(source.family, labels...) - before[i].counter(source.family, labels...)) / elapsed.Seconds()
			if share > most.Share {
				most.Node, most.Share = node.Name, share
			}
		}
		if most.Node != "" {
			b.Busy = append(b.Busy, most)
		}
	}
	return b
}

// startOf tells a process from its successor, whose counters begin at zero.
func startOf(p page) float64 {
	for _, metric := range p.series("process_start_time_seconds") {
		return metric.GetGauge().GetValue()
	}
	return 0
}

func (b *buckets) times(stage string, elapsed time.Duration) StageTimes {
	return StageTimes{
		Stage: stage, Count: int64(b.total), Mean: 1000 * b.sum / b.total,
		P50: 1000 * b.percentile(0.50), P95: 1000 * b.percentile(0.95), P99: 1000 * b.percentile(0.99),
		InFlight: b.sum / elapsed.Seconds(), // Little's law
	}
}

func (b *Breakdown) text() string {
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("\n%-10s %9s %9s %9s %9s %9s %9s\n", "nodes, ms", "count", "mean", "p50", "p95", "p99", "in flight")
	for _, s := range b.Stages {
		text += fmt.Sprintf("%-10s %9d %9.3f %9.3f %9.3f %9.3f %9.2f\n", s.Stage, s.Count, s.Mean, s.P50, s.P95, s.P99, s.InFlight)
	}
	if len(b.Busy) > 0 {
		words := make([]string, len(b.Busy))
		for i, busy := range b.Busy {
			words[i] = fmt.Sprintf("%s %.0f %% (%s)", busy.Stage, 100*busy.Share, busy.Node)
		}
		text += "busy       " + strings.Join(words, "   ") + "\n"
	}
	if len(b.Missing) > 0 {
		text += "no figures of " + strings.Join(b.Missing, ", ") + "\n"
	}
	return text
}
