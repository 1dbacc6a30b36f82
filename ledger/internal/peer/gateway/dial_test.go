package gateway

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"

	"github.com/qioi/qioi/ledger/internal/ca"
)

// pool trusts one authority of its own.
func pool(t *testing.T) *x509.CertPool {
	authority, err := ca.New("tlsca", "org")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority.CertPEM()))
	return roots
}

// TestNobodyEndsAnothersConnection: channels differ in an orderer's authorities for a while, and an organisation may name any
// address for its peers.
func TestNobodyEndsAnothersConnection(t *testing.T) {
	d := newDialer(true, nil, nil)
	defer d.close()
	one, other := node{address: "127.0.0.1:1", roots: pool(t)}, node{address: "127.0.0.1:1", roots: pool(t)}
	pinned := one
	pinned.certificate = []byte("the orderer's")
	conns := map[*dialled]bool{}
	for _, n := range []node{one, other, pinned, other, one} {
		conn, err := d.conn(n)
		require.NoError(t, err)
		conns[conn] = true
	}
	assert.Len(t, conns, 3)
	for conn := range conns {
		assert.NotEqual(t, connectivity.Shutdown, conn.GetState())
	}
}

// TestWhatNobodyUsesIsClosedInTheEnd, and not what is used or has been lately.
func TestWhatNobodyUsesIsClosedInTheEnd(t *testing.T) {
	d := newDialer(true, nil, nil)
	defer d.close()
	roots := pool(t)
	dial := func(address string) *dialled {
		conn, err := d.conn(node{address: address, roots: roots})
		require.NoError(t, err)
		return conn
	}
	used, lately, left := dial("127.0.0.1:1"), dial("127.0.0.1:2"), dial("127.0.0.1:3")
	lately.release()
	left.release()
	left.used = time.Now().Add(-unusedFor)
	dial("127.0.0.1:4")
	assert.Equal(t, connectivity.Shutdown, left.GetState())
	assert.NotContains(t, d.conns, "127.0.0.1:3")
	for _, conn := range []*dialled{used, lately} {
		assert.NotEqual(t, connectivity.Shutdown, conn.GetState())
		assert.Same(t, conn, dial(conn.node.address))
	}
	assert.Equal(t, 2, used.users)
}
