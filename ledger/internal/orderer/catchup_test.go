package orderer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// hanging takes requests for blocks, and sends none.
type hanging struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	asked atomic.Int64
}

func (h *hanging) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	h.asked.Add(1)
	<-stream.Context().Done()
	return nil
}

// TestCatchingUpLeavesAnOrdererThatSendsNothing for another one.
func TestCatchingUpLeavesAnOrdererThatSendsNothing(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount = "block", 1 })
	c.start(0)
	stop := c.start(1)
	const blocks = 30
	for i := range blocks {
		c.orderAt(0, fmt.Sprint("tx", i))
	}
	stop()
	cfg, err := nodeconfig.Load(c.config(1), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	certificate, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", c.node(1).Address)
	require.NoError(t, err)
	h := &hanging{}
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second})) // it answers pings
	ordererpb.RegisterAtomicBroadcastServer(server, h)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	behind := c.open(2)
	defer func() { require.NoError(t, behind.close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// The others are asked in random order, so this goes on until the one that hangs has been asked.
	for height := uint64(2); height <= blocks && h.asked.Load() == 0; height++ {
		require.NoError(t, behind.channels[ch].CatchUp(ctx, height))
		require.NoError(t, ctx.Err(), "an orderer that sends nothing is waited for")
		assert.GreaterOrEqual(t, behind.channels[ch].Height(), height)
	}
	assert.Positive(t, h.asked.Load())
}
