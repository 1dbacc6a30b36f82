package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
	pipeline "github.com/qioi/qioi/ledger/internal/stage"
)

// toyNode is an operations endpoint with the series of a stage; its process may be another one from a moment on.
type toyNode struct {
	network.Node
	stage *prometheus.HistogramVec
	busy  *prometheus.CounterVec
	start prometheus.Gauge
	// Of an orderer's stages:
	orders, came, waited *prometheus.CounterVec
	steps                *prometheus.CounterVec
}

func newToyNode(t *testing.T, name string) *toyNode {
	registry := prometheus.NewRegistry()
	n := &toyNode{
		stage: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "qioi_pipeline_stage_seconds", Buckets: []float64{0.001, 0.002, 0.004}}, []string{"channel", "stage"}),
		busy:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "qioi_pipeline_busy_seconds_total"}, []string{"channel", "stage"}),
		start: prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds"}),
	}
	counter := func(name, of string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{"channel", of})
	}
	n.orders = counter("qioi_orderer_stage_busy_seconds_total", "stage")
	n.came, n.waited = counter("qioi_orderer_queue_items_total", "queue"), counter("qioi_orderer_queue_wait_seconds_total", "queue")
	n.steps = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "qioi_orderer_busy_seconds_total"}, []string{"channel"})
	registry.MustRegister(n.stage, n.busy, n.start, n.orders, n.steps, n.came, n.waited)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	n.Node = network.Node{Name: name, Role: "peer", Operations: strings.TrimPrefix(server.URL, "http://")}
	n.start.Set(1)
	return n
}

func (n *toyNode) flush(channel string, count int, seconds float64) {
	for range count {
		n.stage.WithLabelValues(channel, "flush").Observe(seconds)
	}
}

func TestTheBreakdownIsAboutTheWindowTheChannelAndAllNodes(t *testing.T) {
	one, two := newToyNode(t, "peer0"), newToyNode(t, "peer1")
	o := &observer{channel: "mychannel", nodes: []network.Node{one.Node, two.Node}}
	one.flush("mychannel", 1000, 1) // before the window
	one.busy.WithLabelValues("mychannel", "flush").Add(50)
	before := scrape(context.Background(), o.nodes)
	one.flush("mychannel", 60, 0.0005)
	one.flush("other", 1000, 0.003)
	two.flush("mychannel", 30, 0.0015)
	two.flush("mychannel", 10, 0.003)
	one.busy.WithLabelValues("mychannel", "flush").Add(1)
	two.busy.WithLabelValues("mychannel", "flush").Add(2)
	b := o.compare(before, scrape(context.Background(), o.nodes), 10*time.Second)

	require.Len(t, b.Stages, 1)
	flush := b.Stages[0]
	assert.Equal(t, "flush", flush.Stage)
	assert.Equal(t, int64(100), flush.Count)
	assert.InDelta(t, 1000*(60*0.0005+30*0.0015+10*0.003)/100, flush.Mean, 1e-6)
	assert.InDelta(t, 50.0/60, flush.P50, 1e-6, "inside the first bucket, of 1 ms")
	assert.InDelta(t, 3, flush.P95, 1e-6, "in the middle of the bucket from 2 to 4 ms")
	assert.InDelta(t, 3.8, flush.P99, 1e-6)
	assert.InDelta(t, 0.0105, flush.InFlight, 1e-6)
	require.Len(t, b.Busy, 1)
	assert.Equal(t, "peer1", b.Busy[0].Node)
	assert.InDelta(t, 0.2, b.Busy[0].Share, 1e-9)
	assert.Empty(t, b.Missing)
	assert.Contains(t, b.text(), "busy       flush 20 % (peer1)\n")
	assert.Empty(t, b.Orderers)
	assert.NotContains(t, b.text(), "wait ms")
}

// TestTheBreakdownHasTheStagesOfOrderers, all of them together, and names the one that works most.
func TestTheBreakdownHasTheStagesOfOrderers(t *testing.T) {
	one, two, peer := newToyNode(t, "orderer1"), newToyNode(t, "orderer2"), newToyNode(t, "peer0")
	o := &observer{channel: "mychannel", nodes: []network.Node{peer.Node, one.Node, two.Node}}
	add := func(n *toyNode, channel, queue string, busy, came, waited float64) {
		switch queue {
		case "proposals", "messages":
			n.steps.WithLabelValues(channel).Add(busy)
		default:
			n.orders.WithLabelValues(channel, queue).Add(busy)
		}
		n.came.WithLabelValues(channel, queue).Add(came)
		n.waited.WithLabelValues(channel, queue).Add(waited)
	}
	add(one, "mychannel", "write", 100, 10, 10_000) // before the window
	add(two, "mychannel", "write", 0, 0, 0)
	before := scrape(context.Background(), o.nodes)
	add(one, "mychannel", "write", 6, 200, 1)
	add(two, "mychannel", "write", 4, 100, 2)
	add(two, "mychannel", "apply", 1, 50, 0)
	add(two, "other", "apply", 9, 1, 1000)
	add(two, "mychannel", "proposals", 2, 100, 20)
	add(two, "mychannel", "messages", 1, 300, 60)
	b := o.compare(before, scrape(context.Background(), o.nodes), 10*time.Second)
	assert.Equal(t, []Busy{{"order", "orderer2", 0.3}, {"write", "orderer1", 0.6}, {"apply", "orderer2", 0.1}}, b.Busy)
	times := func(name string, rate, wait, service, saturation, queue float64) pipeline.Times {
		return pipeline.Times{Stage: name, Threads: 1, Rate: rate, Wait: wait, Service: service, Saturation: saturation, Queue: queue, Capacity: pipeline.Unstated}
	}
	assert.Equal(t, []OrdererStage{
		{times("order", 40, 200, 7.5, 0.3, 4), "orderer2"}, {times("write", 30, 10, 1000.0/30, 0.6, 0.15), "orderer1"}, {times("apply", 5, 0, 20, 0.1, 0), "orderer2"},
	}, b.Orderers)
	assert.Contains(t, b.text(), pipeline.Head("orderer")+"order             40    200.000      7.500         30% orderer2               4.0\n")
}

// TestTheBreakdownHasTheStagesThatTheOrderersHave: those by Raft write and apply where they order, and wait for each other.
func TestTheBreakdownHasTheStagesThatTheOrderersHave(t *testing.T) {
	one, two, peer := newToyNode(t, "orderer1"), newToyNode(t, "orderer2"), newToyNode(t, "peer0")
	o := &observer{channel: "mychannel", nodes: []network.Node{peer.Node, one.Node, two.Node}}
	before := scrape(context.Background(), o.nodes)
	for _, n := range []*toyNode{one, two} {
		n.steps.WithLabelValues("mychannel").Add(1)
		for _, queue := range []string{"proposals", "messages", "replicate"} {
			n.came.WithLabelValues("mychannel", queue).Add(50)
			n.waited.WithLabelValues("mychannel", queue).Add(2)
		}
	}
	one.steps.WithLabelValues("mychannel").Add(4)
	b := o.compare(before, scrape(context.Background(), o.nodes), 10*time.Second)
	require.Len(t, b.Orderers, 2)
	assert.Equal(t, OrdererStage{pipeline.Times{
		Stage: "replicate", Threads: pipeline.Elsewhere, Rate: 10, Wait: 40, Queue: 0.2, Capacity: pipeline.Unstated,
	}, ""}, b.Orderers[1])
	assert.Contains(t, b.text(), pipeline.Head("orderer")+
		"order             20     40.000     30.000         50% orderer1               0.4\n"+
		"replicate         10     40.000          -           -        -               0.2\n")
}

func TestNodesThatCannotBeComparedAreNamed(t *testing.T) {
	steady, restarted, dead := newToyNode(t, "steady"), newToyNode(t, "restarted"), newToyNode(t, "dead")
	dead.Operations = "127.0.0.1:1"
	o := &observer{channel: "mychannel", nodes: []network.Node{steady.Node, restarted.Node, dead.Node}}
	restarted.flush("mychannel", 10, 1)
	before := scrape(context.Background(), o.nodes)
	steady.flush("mychannel", 1, 9)
	restarted.start.Set(2)
	b := o.compare(before, scrape(context.Background(), o.nodes), time.Second)
	assert.Equal(t, []string{"restarted", "dead"}, b.Missing)
	require.Len(t, b.Stages, 1)
	assert.Equal(t, int64(1), b.Stages[0].Count)
	assert.Equal(t, 4.0, b.Stages[0].P50, "beyond the last bound: that bound")
	assert.Contains(t, b.text(), "no figures of restarted, dead\n")
}

func TestALoadRunTellsItsBreakdown(t *testing.T) {
	var looks atomic.Int64
	operations := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/metrics", r.URL.Path)
		count := map[int64]string{1: "5", 2: "9"}[looks.Add(1)]
		_, _ = w.Write([]byte("# TYPE endorser_proposal_duration histogram\n" +
			`endorser_proposal_duration_bucket{channel="mychannel",chaincode="kv:1.0",success="true",le="0.5"} ` + count + "\n" +
			`endorser_proposal_duration_bucket{channel="mychannel",chaincode="kv:1.0",success="true",le="+Inf"} ` + count + "\n" +
			`endorser_proposal_duration_sum{channel="mychannel",chaincode="kv:1.0",success="true"} ` + count + "\n" +
			`endorser_proposal_duration_count{channel="mychannel",chaincode="kv:1.0",success="true"} ` + count + "\n"))
	}))
	defer operations.Close()
	file := startNetwork(t, &fakeGateway{})
	addOperations(t, file, strings.TrimPrefix(operations.URL, "http://"))
	r, err := execute(context.Background(), t, "--network", file, "--rate", "50", "--warmup", "50ms", "--duration", "100ms", "--breakdown")
	require.NoError(t, err)
	require.NotNil(t, r.Breakdown)
	require.Len(t, r.Breakdown.Stages, 1)
	assert.Equal(t, "endorse", r.Breakdown.Stages[0].Stage)
	assert.Equal(t, int64(4), r.Breakdown.Stages[0].Count)
	assert.Equal(t, int64(2), looks.Load())

	r, err = execute(context.Background(), t, "--network", file, "--rate", "50", "--warmup", "0s", "--duration", "100ms")
	require.NoError(t, err)
	assert.Nil(t, r.Breakdown)
	assert.Equal(t, int64(2), looks.Load(), "nobody asked")
}
