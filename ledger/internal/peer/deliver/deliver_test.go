package deliver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/deliver"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

type fixture struct {
	t      *testing.T
	dir    string
	w      *peertest.World
	c      *chain.Chain
	orders *peertest.Orderer
	client peerpb.DeliverClient
	ctx    context.Context
	counts *prometheus.Registry
}

// start runs a chain and the service on it, over a real connection.
func start(t *testing.T) *fixture {
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream})
	dir := t.TempDir()
	c, err := chain.Open(dir, w.Genesis, chain.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	registry := prometheus.NewRegistry()
	service := deliver.New(func(id string) deliver.Chain {
		if id == c.ID() {
			return c
		}
		return nil
	}, serving.NewDelivered(registry))
	address, stop := servingtest.Serve(t, func(s *grpc.Server) { peerpb.RegisterDeliverServer(s, service) })
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
	})
	return &fixture{t, dir, w, c, w.NewOrderer(), peerpb.NewDeliverClient(conn), ctx, registry}
}

// block commits a block of one transaction.
func (f *fixture) block(tx peertest.Tx) string {
	raw, id := f.w.Make(tx)
	require.NoError(f.t, f.c.Add(f.ctx, raw))
	header, metadata := f.orders.Seal([][]byte{raw})
	require.NoError(f.t, f.c.Seal(f.ctx, header, metadata))
	return id
}

func at(n uint64) *ordererpb.SeekPosition {
	return &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: n}}}
}

func (f *fixture) request(seek *ordererpb.SeekInfo, signer protoutil.Signer) *commonpb.Envelope {
	data, err := proto.Marshal(seek)
	require.NoError(f.t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, peertest.Channel, signer, nil, data)
	require.NoError(f.t, err)
	return env
}

func (f *fixture) ask(env *commonpb.Envelope) peerpb.Deliver_DeliverClient {
	stream, err := f.client.Deliver(f.ctx)
	require.NoError(f.t, err)
	require.NoError(f.t, stream.Send(env))
	return stream
}

func TestWholeBlocksOldAndNew(t *testing.T) {
	f := start(t)
	stream := f.ask(f.request(&ordererpb.SeekInfo{Start: at(0), Stop: at(2)}, f.w.Signer("Org1MSP", "client")))
	f.block(peertest.Tx{})
	f.block(peertest.Tx{Endorsers: nil, Change: func(p *peertest.Parts) {
		p.Envelope = func(e *commonpb.Envelope) { e.Signature[9]++ }
	}})
	for n, flags := range [][]byte{{0}, {0}, {byte(peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE)}} {
		answer, err := stream.Recv()
		require.NoError(t, err)
		block := answer.GetBlock()
		assert.EqualValues(t, n, block.Header.Number)
		assert.Equal(t, flags, chain.Flags(block))
		assert.Equal(t, protoutil.DataHash(block.Data.Data), block.Header.DataHash)
	}
	answer, err := stream.Recv()
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_SUCCESS, answer.GetStatus())
}

// TestHeadersComeWithConfigurations, as in Fabric: whoever reads headers learns of no other signers otherwise.
func TestHeadersComeWithConfigurations(t *testing.T) {
	f := start(t)
	f.block(peertest.Tx{})
	stream := f.ask(f.request(&ordererpb.SeekInfo{
		Start: at(0), Stop: at(1), ContentType: ordererpb.SeekInfo_HEADER_WITH_SIG,
	}, f.w.Signer("Org1MSP", "client")))
	for n, data := range []*commonpb.BlockData{f.w.Genesis.Data, nil} {
		answer, err := stream.Recv()
		require.NoError(t, err)
		assert.EqualValues(t, n, answer.GetBlock().GetHeader().GetNumber())
		assert.NotNil(t, answer.GetBlock().GetMetadata())
		assert.True(t, proto.Equal(data, answer.GetBlock().Data), "block %d", n)
	}
}

// TestNothingIsMissedBetweenOldAndNew: streams that begin at any moment while blocks arrive get each
// block once, in order, the old ones and those that come.
func TestNothingIsMissedBetweenOldAndNew(t *testing.T) {
	const streams, blocks = 8, 40
	f := start(t)
	var readers errgroup.Group
	for n := range blocks {
		if n%(blocks/streams) == 0 {
			stream := f.ask(f.request(&ordererpb.SeekInfo{Start: at(0), Stop: at(blocks)}, f.w.Signer("Org1MSP", "client")))
			readers.Go(func() error {
				for number := range uint64(blocks + 1) {
					answer, err := stream.Recv()
					if err != nil {
						return err
					}
					if got := answer.GetBlock().GetHeader().GetNumber(); answer.GetBlock() == nil || got != number {
						return fmt.Errorf("block %d is due, got %d (%v)", number, got, answer.GetStatus())
					}
				}
				return nil
			})
		}
		f.block(peertest.Tx{})
	}
	require.NoError(t, readers.Wait())
}

func TestFilteredBlocksKeepPayloadsBack(t *testing.T) {
	f := start(t)
	id := f.block(peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: "moved", Payload: []byte("secret")}})
	stream, err := f.client.DeliverFiltered(f.ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(f.request(&ordererpb.SeekInfo{Start: at(1), Stop: at(1)}, f.w.Signer("Org2MSP", "client"))))
	answer, err := stream.Recv()
	require.NoError(t, err)
	block := answer.GetFilteredBlock()
	assert.Equal(t, peertest.Channel, block.ChannelId)
	require.Len(t, block.FilteredTransactions, 1)
	tx := block.FilteredTransactions[0]
	assert.Equal(t, id, tx.Txid)
	event := tx.GetTransactionActions().ChaincodeActions[0].ChaincodeEvent
	assert.Equal(t, "moved", event.EventName)
	assert.Empty(t, event.Payload)
	answer, err = stream.Recv()
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_SUCCESS, answer.GetStatus())
	assert.Equal(t, map[string]float64{
		`deliver_requests_received{channel="mychannel",data_type="filtered_block",filtered="true"}`:                 1,
		`deliver_requests_completed{channel="mychannel",data_type="filtered_block",filtered="true",success="true"}`: 1,
		`deliver_blocks_sent{channel="mychannel",data_type="filtered_block",filtered="true"}`:                       1,
		"deliver_streams_opened": 1, "deliver_streams_closed": 0,
	}, opstest.Series(t, f.counts))
}

// withoutNonce asks for block 0 at that time.
func withoutNonce(t *testing.T, f *fixture, when time.Time) *commonpb.Envelope {
	marshal := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		return raw
	}
	client := f.w.Signer("Org1MSP", "client")
	env := &commonpb.Envelope{Payload: marshal(&commonpb.Payload{
		Header: &commonpb.Header{
			ChannelHeader: marshal(&commonpb.ChannelHeader{
				Type: int32(commonpb.HeaderType_DELIVER_SEEK_INFO), ChannelId: peertest.Channel, Timestamp: timestamppb.New(when),
			}),
			SignatureHeader: marshal(&commonpb.SignatureHeader{Creator: client.Serialized()}),
		},
		Data: marshal(&ordererpb.SeekInfo{Start: at(0), Stop: at(0)}),
	})}
	var err error
	env.Signature, err = client.Sign(env.Payload)
	require.NoError(t, err)
	return env
}

// TestARequestNeedsNoNonce: fabric-gateway asks without one, and without a transaction id.
func TestARequestNeedsNoNonce(t *testing.T) {
	f := start(t)
	env := withoutNonce(t, f, time.Now())
	answer, err := f.ask(env).Recv()
	require.NoError(t, err)
	assert.NotNil(t, answer.GetBlock(), answer)
	filtered, err := f.client.DeliverFiltered(f.ctx)
	require.NoError(t, err)
	require.NoError(t, filtered.Send(env))
	answer, err = filtered.Recv()
	require.NoError(t, err)
	assert.NotNil(t, answer.GetFilteredBlock(), answer)
}

func TestRefusals(t *testing.T) {
	f := start(t)
	good := &ordererpb.SeekInfo{Start: at(0), Stop: at(0)}
	client := f.w.Signer("Org1MSP", "client")
	foreign := peertest.New(t, peertest.Options{}).Signer("Org1MSP", "client")
	spoiled := f.request(good, client)
	spoiled.Signature[9]++
	otherType, _, err := protoutil.NewEnvelope(commonpb.HeaderType_MESSAGE, peertest.Channel, client, nil, nil)
	require.NoError(t, err)
	otherChannel, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, "other", client, nil, nil)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		env  *commonpb.Envelope
		want commonpb.Status
	}{
		"foreign":          {f.request(good, foreign), commonpb.Status_FORBIDDEN},
		"signature":        {spoiled, commonpb.Status_FORBIDDEN},
		"type":             {otherType, commonpb.Status_BAD_REQUEST},
		"channel":          {otherChannel, commonpb.Status_NOT_FOUND},
		"no start":         {f.request(&ordererpb.SeekInfo{}, client), commonpb.Status_BAD_REQUEST},
		"backwards":        {f.request(&ordererpb.SeekInfo{Start: at(2), Stop: at(1)}, client), commonpb.Status_BAD_REQUEST},
		"recorded":         {withoutNonce(t, f, time.Now().Add(-time.Hour)), commonpb.Status_BAD_REQUEST},
		"empty":            {&commonpb.Envelope{}, commonpb.Status_BAD_REQUEST},
		"not there (yet)":  {f.request(&ordererpb.SeekInfo{Start: at(9), Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY}, client), commonpb.Status_NOT_FOUND},
		"good, to be sure": {f.request(&ordererpb.SeekInfo{Start: at(0), Stop: at(0)}, client), commonpb.Status_SUCCESS},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := f.ask(c.env).Recv()
			require.NoError(t, err)
			if c.want == commonpb.Status_SUCCESS {
				assert.NotNil(t, answer.GetBlock())
				return
			}
			assert.Equal(t, c.want, answer.GetStatus())
		})
	}
}

// TestADamagedBlockIsLogged: who asks is told that something is wrong here, and only the log what it is.
func TestADamagedBlockIsLogged(t *testing.T) {
	f := start(t)
	files, err := filepath.Glob(filepath.Join(f.dir, "segment-*.blk"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	file, err := os.OpenFile(files[0], os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("damage"), info.Size()/2)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	log := opstest.Logged(t, func() {
		answer, err := f.ask(f.request(&ordererpb.SeekInfo{Start: at(0), Stop: at(0)}, f.w.Signer("Org1MSP", "client"))).Recv()
		require.NoError(t, err)
		assert.Equal(t, commonpb.Status_INTERNAL_SERVER_ERROR, answer.GetStatus())
	})
	assert.Contains(t, log, "ERRO")
	assert.Contains(t, log, "ledger file "+files[0]+" is corrupt")
}
