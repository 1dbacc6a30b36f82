package orderer

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/setup"
)

// muteAt has an orderer's address end each TLS handshake, and say nothing more.
func (c *testCluster) muteAt(i int) {
	c.t.Helper()
	cfg, err := nodeconfig.Load(c.config(i), nodeconfig.RoleOrderer)
	require.NoError(c.t, err)
	cert, err := cfg.Certificate()
	require.NoError(c.t, err)
	l, err := tls.Listen("tcp", c.node(i).Address, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	require.NoError(c.t, err)
	c.hold(l, func(conn net.Conn) { _ = conn.(*tls.Conn).Handshake() })
}

// TestAFollowerTellsOfMuteSources that end the handshake and say nothing more.
func TestAFollowerTellsOfMuteSources(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	c.muteAt(1)
	c.muteAt(2)
	for limit := 5 * time.Second; ; limit *= 2 { // on a slow host it takes longer
		node := c.openFollower(0)
		said := opstest.Logged(t, func() {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			assert.NoError(t, node.Run(ctx))
		})
		if strings.Contains(said, "no blocks from other orderers: "+c.node(1).Address) {
			assert.Contains(t, said, c.node(2).Address+": ")
			return
		}
		require.Less(t, limit, time.Minute, said)
	}
}
