package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/qioi/qioi/ledger/internal/network"
	pipeline "github.com/qioi/qioi/ledger/internal/stage"
)

// Breakdown is where the time went by the nodes' own metrics, from the end of the warm-up
// until the last result was known.
type Breakdown struct {
	Stages []StageTimes `json:"stages"`
	Busy   []Busy       `json:"busy"`
	// Orderers are the stages of orderers, and what waits for others.
	Orderers []OrdererStage `json:"orderers,omitempty"`
	Missing  []string       `json:"missing_nodes,omitempty"` // did not answer, or were restarted meanwhile
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

// Busy is the share of the time that a stage worked at the node where it worked most: at 1 it
// cannot do more. The time of workers that verify signatures is added up, so theirs is above 1
// where several work at once.
type Busy struct {
	Stage string  `json:"stage"`
	Node  string  `json:"node"`
	Share float64 `json:"share"`
}

// OrdererStage is one stage of all orderers together, as bft-bench tells it of replicas.
type OrdererStage struct {
	pipeline.Times
	Node string `json:"node"` // Node is the orderer whose stage worked most.
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

// ordererSource is a stage of orderers: the counter of its working time, and what waits for it.
type ordererSource struct {
	stage, busy string // busy is empty where others do the work
	labels      []label
	queues      []string
}

// ordererSources are the stages of all kinds of orderers, each of which has some of them.
var ordererSources = []ordererSource{
	{"order", "qioi_orderer_busy_seconds_total", nil, []string{"proposals", "messages"}},
	{"write", "qioi_orderer_stage_busy_seconds_total", []label{{"stage", "write"}}, []string{"write"}},
	{"apply", "qioi_orderer_stage_busy_seconds_total", []label{{"stage", "apply"}}, []string{"apply"}},
	{"replicate", "", nil, []string{"replicate"}},
	{"broker", "", nil, []string{"broker"}},
	{"sequencer", "", nil, []string{"sequencer"}},
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
	b.Orderers = w.orderers()
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

// orderers tells of the stages of those orderers whose queues say for how long items wait.
func (w *window) orderers() (all []OrdererStage) {
	nodes := slices.DeleteFunc(slices.Clone(w.nodes), func(node seen) bool { return !w.waits(node) })
	if len(nodes) == 0 {
		return nil
	}
	sources := slices.DeleteFunc(slices.Clone(ordererSources), func(source ordererSource) bool {
		return !slices.ContainsFunc(nodes, func(node seen) bool { return w.waits(node, source.queues...) })
	})
	var counted [][]pipeline.Sample
	for _, node := range nodes {
		counted = append(counted, w.ordererStages(node, sources))
	}
	for _, times := range pipeline.Breakdown(counted, w.elapsed.Seconds()) {
		one := OrdererStage{Times: times}
		if times.Most > 0 {
			one.Node, one.Most = nodes[times.Most-1].name, 0
		}
		all = append(all, one)
	}
	return all
}

// waits reports whether a node says for how long items wait in one of these queues, or in any where none is named.
func (w *window) waits(node seen, queues ...string) bool {
	return slices.ContainsFunc(node.after.series("qioi_orderer_queue_wait_seconds_total", w.ours), func(metric *dto.Metric) bool {
		return len(queues) == 0 || slices.ContainsFunc(queues, func(queue string) bool { return label{"queue", queue}.on(metric) })
	})
}

// ordererStages is what the stages of an orderer have counted.
func (w *window) ordererStages(node seen, sources []ordererSource) (all []pipeline.Sample) {
	for _, source := range sources {
		s := pipeline.Sample{Name: source.stage, Threads: pipeline.Elsewhere, Capacity: pipeline.Unstated}
		if source.busy != "" {
			s.Threads, s.Busy = 1, w.gained(node, source.busy, source.labels...)
		}
		for _, queue := range source.queues {
			s.Units += int64(w.gained(node, "qioi_orderer_queue_items_total", label{"queue", queue}))
			s.Waited += w.gained(node, "qioi_orderer_queue_wait_seconds_total", label{"queue", queue})
		}
		all = append(all, s)
	}
	return all
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
	if len(b.Orderers) > 0 {
		text += pipeline.Head("orderer")
		for _, one := range b.Orderers {
			text += one.Text(one.Node)
		}
	}
	if len(b.Missing) > 0 {
		text += "no figures of " + strings.Join(b.Missing, ", ") + "\n"
	}
	return text
}
