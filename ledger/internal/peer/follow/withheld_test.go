package follow_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
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
	// at are earlier blocks, which are asked for by their number.
	at map[uint64]*commonpb.Block
}

func (n *newest) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	env, err := stream.Recv()
	if err != nil || n.block == nil {
		return err
	}
	msg, err := protoutil.OpenEnvelope(env)
	if !assert.NoError(n.t, err) {
		return err
	}
	var seek ordererpb.SeekInfo
	if err := protoutil.Unmarshal(msg.Data, &seek); !assert.NoError(n.t, err) {
		return err
	}
	assert.Equal(n.t, ordererpb.SeekInfo_HEADER_WITH_SIG, seek.ContentType, "its transactions are not needed")
	block := n.block
	if wanted := seek.Start.GetSpecified(); wanted == nil {
		assert.NotNil(n.t, seek.Start.GetNewest())
	} else {
		assert.Equal(n.t, ordererpb.SeekInfo_FAIL_IF_NOT_READY, seek.Behavior)
		assert.Equal(n.t, wanted.Number, seek.Stop.GetSpecified().GetNumber())
		if block = n.at[wanted.Number]; block == nil {
			return stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Status{Status: commonpb.Status_NOT_FOUND}})
		}
	}
	return stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: block}})
}

// sealed is the block that an item seals.
func sealed(items []*streampb.Item) *commonpb.Block {
	seal := items[len(items)-1].GetSeal()
	return &commonpb.Block{Header: seal.Header, Metadata: seal.Metadata}
}

// hears runs a peer at these orderers until it has all of the transactions.
func hears(t *testing.T, w *peertest.World, ids []string, patience time.Duration, wrapped ...func(*chain.Chain) follow.Chain) {
	t.Helper()
	p := follows(t, w, &follow.Follower{Patience: patience}, wrapped...)
	p.has(ids)
	p.hasSealed(uint64(1 + len(ids)/5))
	p.stop()
}

// patiently has a peer hear until this is as it is to be, with more patience each time: on a host that is slow enough
// honest orderers are left, too.
func patiently(t *testing.T, first time.Duration, hear func(patience time.Duration) bool) {
	t.Helper()
	patience := first
	for !hear(patience) {
		patience *= 2
		require.Less(t, patience, time.Minute, "liars are followed too often, whatever the patience")
	}
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
			patiently(t, cmp.Or(c.patience, shortPatience), func(patience time.Duration) bool {
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
				hears(t, w, ids, patience)
				return liar.times() == 1
			})
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
	patiently(t, shortPatience, func(patience time.Duration) bool {
		honest.forget()
		boaster.forget()
		hears(t, w, ids, patience)
		return boaster.times() <= 2
	})
	// One that is not sealed by an orderer is no claim.
	header, metadata = (&peertest.Orderer{World: w, Number: 1000, Previous: []byte("x")}).Seal(nil)
	header.Number++
	says.block = &commonpb.Block{Header: header, Metadata: metadata}
	patiently(t, shortPatience, func(patience time.Duration) bool {
		honest.forget()
		boaster.forget()
		hears(t, w, ids, patience)
		return boaster.times() <= 1 // it is followed where it comes first
	})
}

// TestAWitnessWhoseNewestBlockOthersSealIsHeard: a consenter has changed its certificate since the block that is withheld.
// The peer does not know the new one, and with it those who have sealed the newest block are no quorum.
func TestAWitnessWhoseNewestBlockOthersSealIsHeard(t *testing.T) {
	liar := &orderer{t: t, serve: 1000}
	other := &orderer{t: t, serve: 1000, after: liar}
	says := &newest{t: t}
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Block, Orderers: []string{listen(t, liar), listen(t, other, says)}, Liars: 1})
	ids, items := order(w, 3)
	liar.items, other.items = items[:1], items
	says.at = map[uint64]*commonpb.Block{2: sealed(items[1])}
	header := &commonpb.BlockHeader{Number: 9, PreviousHash: []byte("x"), DataHash: []byte("y")}
	var signatures []*commonpb.MetadataSignature
	for i, signer := range []*identity.SigningIdentity{w.Replicas[1], w.Replicas[2], w.Signer("OrdererMSP", "orderer")} {
		signature, err := protoutil.SignAsConsenter(signer, uint32(2+i), header, 2, nil)
		require.NoError(t, err)
		signatures = append(signatures, signature)
	}
	metadata, err := protoutil.SignedBlock(2, nil, signatures)
	require.NoError(t, err)
	says.block = &commonpb.Block{Header: header, Metadata: metadata}
	patiently(t, shortPatience, func(patience time.Duration) bool {
		liar.forget()
		hears(t, w, ids, patience)
		return liar.times() == 1
	})
}
