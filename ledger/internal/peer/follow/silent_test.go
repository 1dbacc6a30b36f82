package follow_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/follow"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
)

// says is a server that accepts connections, says so much, and nothing more.
func says(t *testing.T, what []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = conn.Write(what)
		}
	}()
	return l.Addr().String()
}

// TestASilentOrdererIsToldOf, from the beginning of its connection on, and is left.
func TestASilentOrdererIsToldOf(t *testing.T) {
	for name, what := range map[string][]byte{"connection alone": nil, "settings": {0, 0, 0, 4, 0, 0, 0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{says(t, what)}})
			c, err := chain.Open(t.TempDir(), w.Genesis, chain.Options{})
			require.NoError(t, err)
			for limit := 4 * time.Second; ; limit *= 2 { // on a slow host it takes longer
				said := opstest.Logged(t, func() {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					f := &follow.Follower{Name: "peer0", Signer: w.Signer("Org1MSP", "peer"), Chain: c}
					assert.NoError(t, f.Run(ctx))
				})
				if strings.Contains(said, "does not answer") {
					return
				}
				require.Less(t, limit, time.Minute, said)
			}
		})
	}
}
