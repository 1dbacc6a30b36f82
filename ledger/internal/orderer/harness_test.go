package orderer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// patience ends a test that has failed. No host is so slow that what must come takes as long.
const patience = 2 * time.Minute

// cluster is a network's orderers.
type testCluster struct {
	t      testing.TB
	dir    string
	file   *network.File
	client *identity.SigningIdentity

	mu    sync.Mutex // clients broadcast side by side
	conns map[string]*grpc.ClientConn
}

func newCluster(t testing.TB, change func(*setup.Options)) *testCluster {
	t.Helper()
	o := setup.Defaults()
	o.Dir = filepath.Join(t.TempDir(), "net")
	o.Orgs, o.PeersPerOrg, o.Chaincodes = 1, 1, nil
	o.RaftTick = 50 * time.Millisecond
	change(&o)
	o.BasePort = porttest.Take(t)
	file, err := setup.Init(o)
	require.NoError(t, err)
	for _, n := range file.Nodes {
		porttest.Within(t, o.BasePort, n.Address, n.Operations, n.Controller)
	}
	user := file.Clients[0]
	client, err := identity.LoadSigner(user.MSPID, filepath.Join(o.Dir, user.Cert), filepath.Join(o.Dir, user.Key))
	require.NoError(t, err)
	return &testCluster{t: t, dir: o.Dir, file: file, client: client, conns: map[string]*grpc.ClientConn{}}
}

func (c *testCluster) node(i int) network.Node { return c.file.Nodes[i] }

func (c *testCluster) config(i int) string { return filepath.Join(c.dir, c.node(i).Config) }

// open makes an orderer of its configuration. It does not run.
func (c *testCluster) open(i int) *Node {
	c.t.Helper()
	cfg, err := nodeconfig.Load(c.config(i), nodeconfig.RoleOrderer)
	require.NoError(c.t, err)
	node, err := Open(cfg)
	require.NoError(c.t, err)
	return node
}

// start runs an orderer inside the test; stop ends it and waits.
func (c *testCluster) start(i int) (stop func()) {
	c.t.Helper()
	_, stop = c.startNode(i)
	return stop
}

// startNode gives the orderer as well.
func (c *testCluster) startNode(i int) (node *Node, stop func()) {
	c.t.Helper()
	node = c.open(i)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(c.t, <-done)
	}
	c.t.Cleanup(stop)
	return node, stop
}

func (c *testCluster) conn(i int) *grpc.ClientConn {
	c.t.Helper()
	conn, err := c.dial(i)
	require.NoError(c.t, err)
	return conn
}

// dial is conn for clients that are goroutines of their own.
func (c *testCluster) dial(i int) (*grpc.ClientConn, error) {
	address := c.node(i).Address
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	creds := insecure.NewCredentials()
	if c.file.TLS {
		ca, err := os.ReadFile(filepath.Join(c.dir, c.file.TLSCA["OrdererMSP"]))
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		creds = credentials.NewTLS(&tls.Config{RootCAs: pool})
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(100<<20)))
	if err != nil {
		return nil, err
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	c.conns[address] = conn
	return conn, nil
}

// message is a client's envelope with a text of its own.
func (c *testCluster) message(channel, text string) *commonpb.Envelope {
	c.t.Helper()
	env, err := c.envelope(channel, text)
	require.NoError(c.t, err)
	return env
}

// envelope is message for clients that are goroutines of their own.
func (c *testCluster) envelope(channel, text string) (*commonpb.Envelope, error) {
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_MESSAGE, channel, c.client, nil, []byte(text))
	return env, err
}

// ask sends one envelope and gives the answer, however long an orderer that runs or starts takes.
func (c *testCluster) ask(i int, env *commonpb.Envelope) (*ordererpb.BroadcastResponse, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	return c.answer(ctx, i, env, grpc.WaitForReady(true))
}

// broadcast sends one envelope and gives the answer; an error when the orderer is away, or stands still. Who calls it tries
// again.
func (c *testCluster) broadcast(ctx context.Context, i int, env *commonpb.Envelope) (*ordererpb.BroadcastResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return c.answer(ctx, i, env)
}

// answer waits for it for as long as ctx allows.
func (c *testCluster) answer(
	ctx context.Context, i int, env *commonpb.Envelope, options ...grpc.CallOption,
) (*ordererpb.BroadcastResponse, error) {
	conn, err := c.dial(i)
	if err != nil {
		return nil, err
	}
	stream, err := ordererpb.NewAtomicBroadcastClient(conn).Broadcast(ctx, options...)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(env); err != nil {
		return nil, err
	}
	return stream.Recv()
}

// order tries one orderer after the other until an envelope is ordered.
func (c *testCluster) order(env *commonpb.Envelope) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		for i := range c.orderers() {
			if r, err := c.broadcast(context.Background(), i, env); err == nil && r.Status == commonpb.Status_SUCCESS {
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond)
}

// orderAt has one orderer order a message; it may still be starting, or wait for a leader.
func (c *testCluster) orderAt(i int, text string) {
	c.t.Helper()
	require.NoError(c.t, c.ordersAt(i, text))
}

// ordersAt is orderAt for clients that are goroutines of their own.
func (c *testCluster) ordersAt(i int, text string) error {
	env, err := c.envelope(ch, text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		r, err := c.broadcast(ctx, i, env)
		switch {
		case err == nil && r.Status == commonpb.Status_SUCCESS:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s is not ordered: answer %v, error %v", text, r, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *testCluster) orderers() int {
	n := 0
	for _, node := range c.file.Nodes {
		if node.Role == nodeconfig.RoleOrderer {
			n++
		}
	}
	return n
}

// texts follows an orderer until it has given n transactions and says what they hold, in order.
func (c *testCluster) texts(i int, channel string, at *streampb.Position, n int) []string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream := c.follow(ctx, i, channel, at)
	var out []string
	for len(out) < n {
		batch, err := stream.Recv()
		require.NoError(c.t, err, "after %d transactions of %d", len(out), n)
		for _, item := range batch.Items {
			if tx := item.GetTx(); tx != nil {
				msg, err := protoutil.ParseEnvelope(tx)
				require.NoError(c.t, err)
				out = append(out, string(msg.Data))
			}
		}
	}
	return out
}

func (c *testCluster) follow(ctx context.Context, i int, channel string, at *streampb.Position) streampb.Stream_FollowClient {
	data, err := proto.Marshal(at)
	require.NoError(c.t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, channel, c.client, nil, data)
	require.NoError(c.t, err)
	stream, err := streampb.NewStreamClient(c.conn(i)).Follow(ctx, env, grpc.WaitForReady(true))
	require.NoError(c.t, err)
	return stream
}

// withoutNonce is a client's envelope that has none, of that time.
func (c *testCluster) withoutNonce(kind commonpb.HeaderType, channel string, data []byte, at time.Time) *commonpb.Envelope {
	marshal := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		require.NoError(c.t, err)
		return raw
	}
	env := &commonpb.Envelope{Payload: marshal(&commonpb.Payload{
		Header: &commonpb.Header{
			ChannelHeader:   marshal(&commonpb.ChannelHeader{Type: int32(kind), ChannelId: channel, Timestamp: timestamppb.New(at)}),
			SignatureHeader: marshal(&commonpb.SignatureHeader{Creator: c.client.Serialized()}),
		},
		Data: data,
	})}
	var err error
	env.Signature, err = c.client.Sign(env.Payload)
	require.NoError(c.t, err)
	return env
}

// blocks asks Deliver for a range of blocks.
func (c *testCluster) blocks(i int, channel string, from, to uint64) ([]*commonpb.Block, error) {
	seek, err := proto.Marshal(&ordererpb.SeekInfo{Start: seekNumber(from), Stop: seekNumber(to)})
	require.NoError(c.t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, channel, c.client, nil, seek)
	require.NoError(c.t, err)
	return c.deliver(i, env)
}

// deliver sends a request for blocks and collects them.
func (c *testCluster) deliver(i int, env *commonpb.Envelope) ([]*commonpb.Block, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := ordererpb.NewAtomicBroadcastClient(c.conn(i)).Deliver(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	if err := stream.Send(env); err != nil {
		return nil, err
	}
	var out []*commonpb.Block
	for {
		response, err := stream.Recv()
		if err != nil {
			return out, err
		}
		if block := response.GetBlock(); block != nil {
			out = append(out, block)
			continue
		}
		if s := response.GetStatus(); s != commonpb.Status_SUCCESS {
			return out, errors.New(s.String())
		}
		return out, nil
	}
}

// chainOnDisk reads the ledger of a stopped orderer: header hashes and all transactions' texts.
func (c *testCluster) chainOnDisk(i int, channel string) (hashes, texts []string) {
	c.t.Helper()
	store, err := blockfile.Open(filepath.Join(c.dir, c.node(i).Data, "channels", channel, "blocks"), blockfile.Options{ReadOnly: true})
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, store.Close()) }()
	for n := range store.Height() {
		block, err := store.Block(n)
		require.NoError(c.t, err)
		require.Equal(c.t, protoutil.DataHash(block.Data.Data), block.Header.DataHash)
		hashes = append(hashes, fmt.Sprintf("%x", protoutil.BlockHeaderHash(block.Header)))
		if n == 0 {
			continue
		}
		for _, tx := range block.Data.Data {
			msg, err := protoutil.ParseEnvelope(tx)
			require.NoError(c.t, err)
			texts = append(texts, string(msg.Data))
		}
	}
	return hashes, texts
}
