package orderer

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// TestWhoIsNotKnownSendsNoMoreThanIsBorne: nothing of it was signed. Who has signed one transaction may send any number.
func TestWhoIsNotKnownSendsNoMoreThanIsBorne(t *testing.T) {
	const each = 8 << 20
	junk := &commonpb.Envelope{Payload: bytes.Repeat([]byte{0xff}, each)}
	for name, known := range map[string]bool{"stranger": false, "writer": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, solo)
			c.start(0)
			c.order(c.message(ch, "first")) // over the connection of the cluster's client
			if !known {
				c.conns = map[string]*grpc.ClientConn{} // another connection, over which nothing was signed
			}
			stream, err := ordererpb.NewAtomicBroadcastClient(c.conn(0)).Broadcast(t.Context())
			require.NoError(t, err)
			for sent := 0; sent <= leastOfStrangers; sent += each {
				var answer *ordererpb.BroadcastResponse
				if err = stream.Send(junk); err == nil {
					answer, err = stream.Recv()
				}
				if err != nil {
					break
				}
				require.Equal(t, commonpb.Status_BAD_REQUEST, answer.Status)
			}
			if known {
				require.NoError(t, err)
				return
			}
			require.Error(t, err, "all of it was taken")
			_, err = stream.Recv() // why sending has failed
			require.Equal(t, codes.Unavailable, status.Code(err), err)
		})
	}
}
