package orderer

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/setup"
)

func TestQueuesAndWorkAreShown(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	for i := range 3 {
		c.start(i)
	}
	c.orderAt(0, "first")
	text := metricsOf(t, c.node(0).Operations)
	for _, series := range []string{
		`qioi_orderer_queue_depth{channel="mychannel",queue="proposals"} 0`, `qioi_orderer_queue_depth{channel="mychannel",queue="messages"} `,
		`qioi_orderer_queue_depth{channel="mychannel",queue="answers"} 0`, `qioi_orderer_busy_seconds_total{channel="mychannel"} `,
		`broadcast_enqueue_duration_count{channel="mychannel",status="SUCCESS",type="MESSAGE"} 1`,
		`broadcast_validate_duration_count{channel="mychannel",status="SUCCESS",type="MESSAGE"} 1`,
		`broadcast_processed_count{channel="mychannel",status="SUCCESS",type="MESSAGE"} 1`,
		`consensus_etcdraft_cluster_size{channel="mychannel"} 3`, `consensus_etcdraft_committed_block_number{channel="mychannel"} `,
		`deliver_streams_opened `, `orderer_ordered_transactions{channel="mychannel"} 1`, `ledger_blockchain_height{channel="mychannel"} `,
		`qioi_orderer_outgoing_depth{to="` + c.node(1).Address + `"} `,
	} {
		assert.Contains(t, text, series)
	}
	assert.NotContains(t, text, `qioi_orderer_busy_seconds_total{channel="mychannel"} 0`+"\n")
}

// TestReplicasShowTheirStages: those that run beside the one that steps, after a transaction has passed them.
func TestReplicasShowTheirStages(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			c := newCluster(t, agreeingBy(consenter, 4))
			for i := range 4 {
				c.start(i)
			}
			c.orderAt(0, "first")
			page := func() string { return metricsOf(t, c.node(0).Operations) }
			for _, stage := range []string{"write", "apply"} {
				for _, series := range []string{
					`qioi_orderer_stage_busy_seconds_total{channel="mychannel",stage="` + stage + `"} `,
					`qioi_orderer_queue_items_total{channel="mychannel",queue="` + stage + `"} `,
				} {
					require.Contains(t, page(), series)
					// A client has its answer before the stage is done with what led to it.
					require.Eventually(t, func() bool { return !strings.Contains(page(), series+"0\n") }, time.Minute, 10*time.Millisecond, series)
				}
				assert.Contains(t, page(), `qioi_orderer_queue_depth{channel="mychannel",queue="`+stage+`"} `)
			}
			for _, queue := range []string{"proposals", "messages", "write", "apply"} { // those before the stage that steps, too
				for _, series := range []string{"queue_items_total", "queue_wait_seconds_total"} {
					assert.NotContains(t, page(), `qioi_orderer_`+series+`{channel="mychannel",queue="`+queue+`"} 0`+"\n")
					assert.Contains(t, page(), `qioi_orderer_`+series+`{channel="mychannel",queue="`+queue+`"} `)
				}
			}
		})
	}
}

// TestConsentersShowWhatWaits, each in the queues that it has, after a transaction has passed them. Of several orderers it is
// the leader's that waits for a majority.
func TestConsentersShowWhatWaits(t *testing.T) {
	one := func(o *setup.Options) { o.Orderers = 1 }
	for consenter, kind := range map[string]struct {
		start  func(t *testing.T) *testCluster
		queues []string
	}{
		"solo": {func(t *testing.T) *testCluster {
			c := newCluster(t, func(o *setup.Options) { o.Consenter, o.Orderers = "solo", 1 })
			c.start(0)
			return c
		}, []string{"proposals", "replicate"}},
		"raft": {func(t *testing.T) *testCluster {
			c := newCluster(t, func(*setup.Options) {})
			for i := range 3 {
				c.start(i)
			}
			return c
		}, []string{"proposals", "messages", "replicate"}},
		"kafka": {func(t *testing.T) *testCluster {
			c, _ := newKafkaCluster(t, one)
			c.start(0)
			return c
		}, []string{"broker", "messages"}},
		"sequencer": {func(t *testing.T) *testCluster {
			c, at := newSequencerCluster(t, one)
			c.spawnSequencer(at)
			c.start(0)
			return c
		}, []string{"proposals", "sequencer", "messages"}},
	} {
		t.Run(consenter, func(t *testing.T) {
			c := kind.start(t)
			c.orderAt(0, "first")
			pages := func() (all string) {
				for i := range c.orderers() {
					all += metricsOf(t, c.node(i).Operations)
				}
				return all
			}
			for _, queue := range kind.queues {
				for _, series := range []string{"queue_items_total", "queue_wait_seconds_total"} {
					counted := regexp.MustCompile(`qioi_orderer_` + series + `\{channel="mychannel",queue="` + queue + `"\} (0\.|[1-9])`)
					assert.Eventually(t, func() bool { return counted.MatchString(pages()) }, time.Minute, 10*time.Millisecond, counted)
				}
				assert.Equal(t, c.orderers(), strings.Count(pages(), `qioi_orderer_queue_depth{channel="mychannel",queue="`+queue+`"} `), queue)
			}
		})
	}
}

func metricsOf(t *testing.T, operations string) string {
	t.Helper()
	text, err := pageOf(operations)
	require.NoError(t, err)
	return text
}

// pageOf is metricsOf a node that may not answer.
func pageOf(operations string) (string, error) {
	response, err := http.Get("http://" + operations + "/metrics")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
