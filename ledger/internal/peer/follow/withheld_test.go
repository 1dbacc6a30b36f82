package follow_test

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/follow"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

const shortPatience = 100 * time.Millisecond

// newest answers who asks for the newest block of an orderer.
type newest struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	t     *testing.T
	block *commonpb.Block
}

func (n *newest) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	env, err := stream.Recv()
	if err != nil || n.block == nil {
		return err
	}
	msg, err := protoutil.OpenEnvelope(env)
	require.NoError(n.t, err)
	var seek ordererpb.SeekInfo
	require.NoError(n.t, protoutil.Unmarshal(msg.Data, &seek))
	assert.NotNil(n.t, seek.Start.GetNewest())
	assert.Equal(n.t, ordererpb.SeekInfo_HEADER_WITH_SIG, seek.ContentType, "its transactions are not needed")
	return stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: n.block}})
}

// sealed is the block that an item seals.
func sealed(items []*streampb.Item) *commonpb.Block {
	seal := items[len(items)-1].GetSeal()
	return &commonpb.Block{Header: seal.Header, Metadata: seal.Metadata}
}

// hears runs a peer at these orderers until it has all of the transactions.
func hears(t *testing.T, w *peertest.World, ids []string, patience time.Duration, wrapped ...func(*chain.Chain) follow.Chain) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	c, err := chain.Open(t.TempDir(), w.Genesis, chain.Options{})
	require.NoError(t, err)
	var group sync.WaitGroup
	group.Go(func() { assert.NoError(t, c.Run(ctx)) })
	f := &follow.Follower{Name: "peer0", Signer: w.Signer("Org1MSP", "peer"), Chain: c, Patience: patience}
	for _, wrap := range wrapped {
		f.Chain = wrap(c)
	}
	group.Go(func() { assert.NoError(t, f.Run(ctx)) })
	for i, id := range ids {
		s, err := c.Status(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, chain.Status{Position: chain.Position{Block: uint64(1 + i/5), Tx: uint64(i % 5)}}, s)
	}
	for c.Height() <= uint64(len(ids)/5) {
		changed := c.UntilChanged()
		if c.Height() <= uint64(len(ids)/5) {
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatal("the last seal did not arrive")
			}
		}
	}
	cancel()
	group.Wait()
	require.NoError(t, c.Close())
}

// TestAnOrdererThatWithholdsIsLeft, and not followed again when the others name it as the leader. It answers all probes.
func TestAnOrdererThatWithholdsIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, c := range map[string]struct {
		gives    int  // items of block 1
		asked    bool // the honest one says what it has sealed
		honestly int  // blocks that the liar does give before
		pace     time.Duration
		patience time.Duration
	}{
		"everything, for longer than until the leader is followed": {asked: true, pace: 80 * time.Millisecond, patience: time.Second / 2},
		"everything":                            {gives: 0, asked: true},
		"what comes after a block":              {gives: 0, asked: true, honestly: 1},
		"the seal":                              {gives: 5, asked: true},
		"the seal, and there is nobody to ask":  {gives: 5},
		"some transactions, and nobody to ask":  {gives: 3},
		"later transactions, and nobody to ask": {gives: 1, honestly: 1},
	} {
		t.Run(name, func(t *testing.T) {
			liar := &orderer{t: t, serve: 1000}
			other := &orderer{t: t, serve: 1000, pace: c.pace, after: liar}
			says := &newest{t: t}
			address := listen(t, liar)
			other.leader = address
			w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{address, listen(t, other, says)}})
			ids, items := order(w, 3)
			other.items = items
			liar.items = append(liar.items, items[:c.honestly]...)
			liar.items = append(liar.items, items[c.honestly][:c.gives])
			if c.asked {
				says.block = sealed(items[c.honestly])
			}
			hears(t, w, ids, cmp.Or(c.patience, shortPatience))
			assert.Equal(t, 1, liar.times(), "it is followed once")
		})
	}
}

// TestAWitnessThatClaimsWhatIsNotThere is found out by being followed: the peer comes back, and does not ask it again.
func TestAWitnessThatClaimsWhatIsNotThere(t *testing.T) {
	honest := &orderer{t: t, serve: 1000, pace: 10 * time.Millisecond}
	boaster := &orderer{t: t, serve: 1000}
	says, truth := &newest{t: t}, &newest{t: t}
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{listen(t, honest, truth), listen(t, boaster, says)}})
	ids, items := order(w, 12)
	honest.items, truth.block = items, sealed(items[0])
	boaster.items = [][]*streampb.Item{nil}
	header, metadata := (&peertest.Orderer{World: w, Number: 1000, Previous: []byte("x")}).Seal(nil)
	says.block = &commonpb.Block{Header: header, Metadata: metadata}
	hears(t, w, ids, shortPatience)
	assert.LessOrEqual(t, boaster.times(), 2)
	// One that is not sealed by an orderer is no claim.
	header, metadata = (&peertest.Orderer{World: w, Number: 1000, Previous: []byte("x")}).Seal(nil)
	header.Number++
	says.block = &commonpb.Block{Header: header, Metadata: metadata}
	honest.forget()
	boaster.forget()
	hears(t, w, ids, shortPatience)
	assert.LessOrEqual(t, boaster.times(), 1, "it is followed where it comes first")
}
