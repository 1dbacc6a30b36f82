package orderer

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// onlyConfigurations is an orderer each of whose blocks is a large configuration, as it says, signed by nobody.
type onlyConfigurations struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	channel *channel
	bytes   int // of each block
	newest  uint64
	asked   []uint64
}

func (o *onlyConfigurations) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	env, err := stream.Recv()
	if err != nil {
		return err
	}
	msg, err := protoutil.OpenEnvelope(env)
	if err != nil {
		return err
	}
	var seek ordererpb.SeekInfo
	if err := proto.Unmarshal(msg.Data, &seek); err != nil {
		return err
	}
	number := o.newest
	if at := seek.Start.GetSpecified(); at != nil {
		number = at.Number
	}
	o.asked = append(o.asked, number)
	block, err := o.block(number)
	if err != nil {
		return err
	}
	return stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: block}})
}

func (o *onlyConfigurations) block(number uint64) (*commonpb.Block, error) {
	tx, err := proto.Marshal(&commonpb.Envelope{Payload: make([]byte, o.bytes), Signature: []byte("none")})
	if err != nil {
		return nil, err
	}
	header := &commonpb.BlockHeader{Number: number, DataHash: protoutil.DataHash([][]byte{tx})}
	metadata, err := protoutil.SignBlock(o.channel.signer, header, number, nil)
	return &commonpb.Block{Header: header, Data: &commonpb.BlockData{Data: [][]byte{tx}}, Metadata: metadata}, err
}

// TestConfigurationsThatNobodyHasProvenAreBounded in bytes as well as in number: an orderer alone takes them from one that
// may lie, before it can tell.
func TestConfigurationsThatNobodyHasProvenAreBounded(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { bftOf(4)(o); o.NoTLS = true })
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	const newest = 20
	liar := &onlyConfigurations{channel: node.channels[ch], bytes: 8 << 20, newest: newest}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	ordererpb.RegisterAtomicBroadcastServer(server, liar)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	_, err = node.channels[ch].newest(t.Context(), listener.Addr().String())
	require.ErrorContains(t, err, "configurations that were missed")
	assert.Len(t, liar.asked, proofBytes/liar.bytes, "what surrounds them makes the last one too many")
}
