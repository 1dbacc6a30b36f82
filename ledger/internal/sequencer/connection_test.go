package sequencer

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/qioi/qioi/ledger/internal/sequencer/sequencertest"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// longest is far more than anything takes. All that it decides is that a test has failed.
const longest = 2 * time.Minute

// start serves a log of the channel ch as the command does, until end or the test's end.
func start(t *testing.T) (l *Log, address string, end func()) {
	t.Helper()
	return startWith(t, func(*Server) {})
}

// startWith is start of a server that is another one in something.
func startWith(t *testing.T, change func(*Server), more ...grpc.ServerOption) (l *Log, address string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l = open(t, t.TempDir())
	server, s := serving.Server(limits, nil, append([]grpc.ServerOption{counted(mostRequest / blobHead)}, more...)...), NewServer(map[string]*Log{"ch": l})
	change(s)
	sequencerpb.RegisterSequencerServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, s.Run(ctx)) })
	running.Go(func() { assert.NoError(t, serving.Serve(ctx, server, listener)) })
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	return l, listener.Addr().String(), end
}

// dial connects until the test ends.
func dial(t *testing.T, address string, options ...grpc.DialOption) sequencerpb.SequencerClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return sequencerpb.NewSequencerClient(conn)
}

// raw is a connection on which nothing has been said.
func raw(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// refused waits until the server has hung up on who has said this.
func refused(t *testing.T, address, said string) {
	t.Helper()
	conn := raw(t, address)
	_, err := conn.Write([]byte(said))
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(longest)))
	_, err = io.Copy(io.Discard, conn)
	if err, is := err.(net.Error); is {
		require.False(t, err.Timeout())
	}
}

// serves wants another client's blobs to be kept and to be read.
func serves(t *testing.T, address string) {
	t.Helper()
	client := dial(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	order, err := client.Order(ctx)
	require.NoError(t, err)
	require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs("a", "b")}))
	answer, err := order.Recv()
	require.NoError(t, err)
	get, err := client.Get(ctx, &sequencerpb.GetRequest{Channel: "ch", Number: answer.First})
	require.NoError(t, err)
	got, err := get.Recv()
	require.NoError(t, err)
	require.Equal(t, blobs("a", "b"), got.Blobs[:2])
}

// TestAClientOfAnyKindHoldsUpNobody, while it stays connected, nor the end of the server.
func TestAClientOfAnyKindHoldsUpNobody(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, l *Log, address string){
		"none":           func(*testing.T, *Log, string) {},
		"silent":         func(t *testing.T, _ *Log, address string) { raw(t, address) },
		"half a preface": func(t *testing.T, _ *Log, address string) { _, _ = raw(t, address).Write([]byte("PRI * HTTP/2.0\r\n")) },
		"HTTP/1":         func(t *testing.T, _ *Log, address string) { refused(t, address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
		"garbage": func(t *testing.T, _ *Log, address string) {
			refused(t, address, strings.Repeat("\x00\xff\x16\x03", 100))
		},
		"a frame too large": func(t *testing.T, _ *Log, address string) {
			refused(t, address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00\x00\x00\x00\x01")
		},
		"no message":       sendsNoMessage,
		"reads no answers": readsNoAnswers,
		"reads no log":     readsNoLog,
	} {
		t.Run(name, func(t *testing.T) {
			l, address, end := start(t)
			connect(t, l, address)
			serves(t, address)
			serves(t, address)
			end()
		})
	}
}

// sendsNoMessage has requests that are of another kind: one that cannot be read, and one in which nothing is found.
func sendsNoMessage(t *testing.T, l *Log, address string) {
	for code, message := range map[codes.Code]proto.Message{
		codes.Internal: wrapperspb.Bytes([]byte{0xff}), // field 1 of a request is a text
		codes.NotFound: wrapperspb.UInt64(7),
	} {
		assert.Equal(t, code, status.Code(sendsAnother(t, address, message)))
	}
	last, _ := l.Last()
	assert.Zero(t, last)
}

func sendsAnother(t *testing.T, address string, message proto.Message) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, sequencerpb.Sequencer_Order_FullMethodName)
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(message))
	return stream.RecvMsg(&sequencerpb.OrderResponse{})
}

// readsNoAnswers has more answers wait than a stream's window and its connection take.
func readsNoAnswers(t *testing.T, l *Log, address string) {
	order, err := dial(t, address).Order(t.Context())
	require.NoError(t, err)
	for range 40_000 {
		require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs("x")}))
	}
	require.Eventually(t, func() bool { last, _ := l.Last(); return last > window }, longest, time.Millisecond)
}

// readsNoLog has more wait than its connection takes.
func readsNoLog(t *testing.T, l *Log, address string) {
	client := dial(t, address)
	order, err := client.Order(t.Context())
	require.NoError(t, err)
	require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs(strings.Repeat("x", 2*batchBytes), "y", strings.Repeat("z", 2*batchBytes))}))
	_, err = order.Recv()
	require.NoError(t, err)
	get, err := client.Get(t.Context(), &sequencerpb.GetRequest{Channel: "ch", Number: 1})
	require.NoError(t, err)
	_, err = get.Header() // it has begun to answer
	require.NoError(t, err)
}

// TestARequestThatIsCutShortIsKeptWhollyOrNot, wherever its connection ends. The client connects again, and finds all that
// it was told of.
func TestARequestThatIsCutShortIsKeptWhollyOrNot(t *testing.T) {
	l, address, _ := start(t)
	const requests = 6
	partly := 0
	for at := 1; at < 900; at += 13 {
		from, _ := l.Last()
		cut := dial(t, address, grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
			return &sequencertest.Cut{Conn: conn, Reads: sequencertest.Whole, Writes: at}, err
		}))
		answered := sends(t, cut, requests)
		serves(t, address) // its own blobs come after those of the one that is cut, or between them
		kept := 0
		for _, text := range all(t, l)[from:] {
			if strings.HasPrefix(text, "cut ") {
				require.Equal(t, fmt.Sprint("cut ", kept/2, " ", kept%2, strings.Repeat(".", 40)), text, "cut after %d bytes", at)
				kept++
			}
		}
		require.Zero(t, kept%2, "cut after %d bytes", at)
		require.GreaterOrEqual(t, kept/2, answered, "cut after %d bytes", at)
		if kept > 0 && kept < 2*requests {
			partly++
		}
	}
	assert.Positive(t, partly, "no connection was cut between requests")
}

// sends orders until the connection ends, and gives how many requests were answered.
func sends(t *testing.T, client sequencerpb.SequencerClient, requests int) (answered int) {
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	order, err := client.Order(ctx)
	if err != nil {
		return 0
	}
	for i := range requests {
		text := func(j int) string { return fmt.Sprint("cut ", i, " ", j, strings.Repeat(".", 40)) }
		if order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs(text(0), text(1))}) != nil {
			break
		}
		if _, err := order.Recv(); err != nil {
			require.NoError(t, ctx.Err(), "it is told that the connection has ended")
			break
		}
		answered++
	}
	return answered
}

// TestAllRequestsAreAnsweredThoughNoMoreCome: the client has said that it sends no more, before the first was kept.
func TestAllRequestsAreAnsweredThoughNoMoreCome(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, s := serving.Server(limits, nil), NewServer(map[string]*Log{"ch": open(t, t.TempDir())})
	sequencerpb.RegisterSequencerServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, serving.Serve(ctx, server, listener)) })
	defer func() {
		cancel()
		running.Wait()
	}()
	order, err := dial(t, listener.Addr().String()).Order(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs("a", "b")}))
	}
	require.NoError(t, order.CloseSend())
	require.Eventually(t, func() bool { return len(s.channels["ch"].waiting) == 3 }, longest, time.Millisecond)
	running.Go(func() { assert.NoError(t, s.Run(ctx)) }) // from now on they are kept
	for i := range uint64(3) {
		answer, err := order.Recv()
		require.NoError(t, err)
		assert.Equal(t, 1+2*i, answer.First)
	}
	_, err = order.Recv()
	assert.ErrorIs(t, err, io.EOF)
}
