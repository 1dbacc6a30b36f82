package contracts

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

func execute(ctx context.Context, args ...string) error {
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(&bytes.Buffer{})
	return cmd.ExecuteContext(ctx)
}

func TestWrongUseIsSaidInOneLine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = busy.Close() }()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nobody", "--listen", "127.0.0.1:0"}, `chaincode "nobody" is not bundled: fabcoin, kv, marbles, scm, simple, smallbank are accepted`},
		{[]string{"kv"}, "no address to listen on"},
		{[]string{"kv", "--listen", busy.Addr().String()}, "address already in use"},
	} {
		err := execute(context.Background(), c.args...)
		require.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestServesUntilItsContextEnds(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(porttest.Take(t)))
	t.Setenv("CHAINCODE_SERVER_ADDRESS", address)
	t.Setenv("CHAINCODE_ID", "smallbank:2.0")

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- execute(ctx, "smallbank") }()

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	limit, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	stream, err := peerpb.NewChaincodeClient(conn).Connect(limit, grpc.WaitForReady(true))
	require.NoError(t, err)
	msg, err := stream.Recv()
	require.NoError(t, err)
	assert.Equal(t, peerpb.ChaincodeMessage_REGISTER, msg.GetType())
	assert.Contains(t, string(msg.GetPayload()), "smallbank:2.0")

	cancel()
	require.NoError(t, <-done)
}
