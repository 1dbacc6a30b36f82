package orderer

import (
	"io"
	"net/http"
	"testing"

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
	response, err := http.Get("http://" + c.node(0).Operations + "/metrics")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for _, series := range []string{
		`qioi_orderer_queue_depth{channel="mychannel",queue="proposals"} 0`, `qioi_orderer_queue_depth{channel="mychannel",queue="messages"} `,
		`qioi_orderer_queue_depth{channel="mychannel",queue="answers"} 0`, `qioi_orderer_busy_seconds_total{channel="mychannel"} `,
		`broadcast_enqueue_duration_count{channel="mychannel",status="SUCCESS",type="MESSAGE"} 1`,
		`broadcast_validate_duration_count{channel="mychannel",status="SUCCESS",type="MESSAGE"} 1`,
		`broadcast_processed_count{channel="mychannel",status="SUCCESS",type="MESSAGE"} 1`,
		`consensus_etcdraft_cluster_size{channel="mychannel"} 3`, `consensus_etcdraft_committed_block_number{channel="mychannel"} `,
		`deliver_streams_opened `,
		`qioi_orderer_outgoing_depth{to="` + c.node(1).Address + `"} `,
	} {
		assert.Contains(t, string(text), series)
	}
	assert.NotContains(t, string(text), `qioi_orderer_busy_seconds_total{channel="mychannel"} 0`+"\n")
}
