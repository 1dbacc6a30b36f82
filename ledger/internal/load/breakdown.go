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
	Queues  []Queue      `json:"queues,omitempty"`        // of orderers by PBFT and Zyzzyva
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

// Queue is how many items waited for a stage at the node where most did, as each item that came found it, in the mean.
type Queue struct {
	Stage string  `json:"stage"`
	Node  string  `json:"node"`
	Found float64 `json:"mean_found"`
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
	{"write", "qioi_orderer_stage_busy_seconds_total", []label{{"stage", "write"}}},
	{"apply", "qioi_orderer_stage_busy_seconds_total", []label{{"stage", "apply"}}},
	{"verify", "qioi_pipeline_busy_seconds_total", []label{{"stage", "verify"}}},
	{"commit", "qioi_pipeline_busy_seconds_total", []label{{"stage", "commit"}}},
	{"flush", "qioi_pipeline_busy_seconds_total", []label{{"stage", "flush"}}},
}

// queueSources are the stages whose queues count what each item finds there.
var queueSources = []string{"write", "apply"}

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
	w := window{elapsed: elapsed, ours: label{"channel", o.channel}}
	for i, node := range o.nodes {
		if before[i] == nil || after[i] == nil || startOf(before[i]) != startOf(after[i]) {
			b.Missing = append(b.Missing, node.Name)
			continue
		}
		w.nodes = append(w.nodes, seen{node.Name, before[i], after[i]})
	}
	for _, source := range stageSources {
		if all := w.observed(source.family, source.labels); all.total > 0 {
			b.Stages = append(b.Stages, all.times(source.stage, elapsed))
		}
	}
	for _, source := range busySources {
		if most := w.busiest(source.family, source.labels); most.Node != "" {
			most.Stage = source.stage
			b.Busy = append(b.Busy, most)
		}
	}
	for _, stage := range queueSources {
		if most := w.fullest(stage); most.Node != "" {
			b.Queues = append(b.Queues, most)
		}
	}
	return b
}

// window is two looks at the nodes that can be compared.
type window struct {
	nodes   []seen
	elapsed time.Duration
	ours    label // ours is of the channel's series
}

// seen is a node at both.
type seen struct {
	name          string
	before, after page
}

// observed is what a histogram of all nodes has gained.
func (w *window) observed(family string, labels []label) (all buckets) {
	labels = append(slices.Clip(labels), w.ours)
	for _, node := range w.nodes {
		for _, metric := range node.after.series(family, labels...) {
			all.add(metric.GetHistogram(), 1)
		}
		for _, metric := range node.before.series(family, labels...) {
			all.add(metric.GetHistogram(), -1)
		}
	}
	return all
}

// gained is what a node's counter has gained.
func (w *window) gained(node seen, family string, labels ...label) float64 {
	labels = append(slices.Clip(labels), w.ours)
	return node.after.counter(family, labels...) - node.before.counter(family, labels...)
}

// busiest is the node where a stage worked most, if it did anywhere.
func (w *window) busiest(family string, labels []label) (most Busy) {
	for _, node := range w.nodes {
		if share := w.gained(node, family, labels...) / w.elapsed.Seconds(); share > most.Share {
			most.Node, most.Share = node.name, share
		}
	}
	return most
}

// fullest is the node where items found most waiting for a stage, if any came anywhere.
func (w *window) fullest(stage string) Queue {
	most, queue := Queue{Stage: stage}, label{"queue", stage}
	for _, node := range w.nodes {
		came := w.gained(node, "qioi_orderer_queue_items_total", queue)
		if came <= 0 {
			continue
		}
		if found := w.gained(node, "qioi_orderer_queue_found_total", queue) / came; most.Node == "" || found > most.Found {
			most.Node, most.Found = node.name, found
		}
	}
	return most
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
	if len(b.Queues) > 0 {
		words := make([]string, len(b.Queues))
		for i, queue := range b.Queues {
			words[i] = fmt.Sprintf("%s %.2f (%s)", queue.Stage, queue.Found, queue.Node)
		}
		text += "queues     " + strings.Join(words, "   ") + "\n"
	}
	if len(b.Missing) > 0 {
		text += "no figures of " + strings.Join(b.Missing, ", ") + "\n"
	}
	return text
}
