package follow_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/follow"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// longest is far more than anything takes. All that it decides is that a test has failed.
const longest = 2 * time.Minute

// orderer serves a fixed order, from where it is asked, and then breaks off.
type orderer struct {
	streampb.UnimplementedStreamServer
	t     *testing.T
	items [][]*streampb.Item // by block, from block 1 on
	serve int                // items a connection
	// leader is named with every item, which leave at that pace.
	leader string
	pace   time.Duration
	// after is who must have been asked before; nil: nobody.
	after *orderer
	// until is who must be asked anew before the last block is sent, while the leader is named again and again; nil: nobody.
	until *orderer

	mu    sync.Mutex
	asked []chain.Position
}

func (o *orderer) Follow(env *commonpb.Envelope, stream streampb.Stream_FollowServer) error {
	at, err := askedFor(o.t, env)
	if err != nil {
		return err
	}
	if o.after != nil && o.after.times() == 0 {
		return status.Error(codes.Unavailable, "the other one first")
	}
	o.mu.Lock()
	o.asked = append(o.asked, chain.Position{Block: at.Block, Tx: at.Tx})
	o.mu.Unlock()
	asked := o.until.times()
	left := o.serve
	for b := at.Block; b-1 < uint64(len(o.items)); b++ {
		items := o.items[b-1]
		if b == at.Block {
			// A peer that was told more elsewhere asks for what this one does not have.
			if at.Tx > uint64(len(items)) {
				return status.Error(codes.NotFound, "no such position")
			}
			items = items[at.Tx:]
		}
		for o.until != nil && b == uint64(len(o.items)) && o.until.times() == asked {
			if err := stream.Send(&streampb.Batch{Leader: o.leader}); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, item := range items {
			if left--; left < 0 {
				return status.Error(codes.Unavailable, "broken off")
			}
			time.Sleep(o.pace)
			if err := stream.Send(&streampb.Batch{Items: []*streampb.Item{item}, Leader: o.leader}); err != nil {
				return err
			}
		}
	}
	<-stream.Context().Done()
	return nil
}

// askedFor is from where a peer asks. An error is the test's, and ends the stream: a handler cannot end the test.
func askedFor(t *testing.T, env *commonpb.Envelope) (*streampb.Position, error) {
	at := &streampb.Position{}
	msg, err := protoutil.OpenEnvelope(env)
	if err == nil {
		assert.Equal(t, int32(commonpb.HeaderType_DELIVER_SEEK_INFO), msg.Channel.Type)
		err = protoutil.Unmarshal(msg.Data, at)
	}
	assert.NoError(t, err)
	return at, err
}

// times is how often it was asked; nil: never.
func (o *orderer) times() int {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

func (o *orderer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = nil
}

func listen(t *testing.T, o *orderer, more ...*newest) string { return serve(t, o, more...) }

func serve(t *testing.T, o streampb.StreamServer, more ...*newest) string {
	address, _ := servingtest.Serve(t, func(s *grpc.Server) {
		streampb.RegisterStreamServer(s, o)
		for _, answers := range more {
			ordererpb.RegisterAtomicBroadcastServer(s, answers)
		}
	})
	return address
}

// following is a peer that follows orderers until it is stopped, at the latest by the test's end.
type following struct {
	*chain.Chain
	t     *testing.T
	ctx   context.Context
	ended chan error // with what its follower has ended
	stop  func()     // and waits for all that it runs
}

// follows runs a peer. Its follower sees the chain as it is wrapped.
func follows(t *testing.T, w *peertest.World, f *follow.Follower, wrapped ...func(*chain.Chain) follow.Chain) *following {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	t.Cleanup(cancel)
	c, err := chain.Open(t.TempDir(), w.Genesis, chain.Options{})
	require.NoError(t, err)
	f.Name, f.Signer, f.Chain = cmp.Or(f.Name, "peer0"), w.Signer("Org1MSP", "peer"), c
	for _, wrap := range wrapped {
		f.Chain = wrap(c)
	}
	p := &following{Chain: c, t: t, ctx: ctx, ended: make(chan error, 1)}
	var group sync.WaitGroup
	group.Go(func() { assert.NoError(t, c.Run(ctx)) })
	group.Go(func() { p.ended <- f.Run(ctx) })
	p.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		select {
		case err := <-p.ended:
			assert.NoError(t, err)
		default: // the test has seen it
		}
		assert.NoError(t, c.Close())
	})
	t.Cleanup(p.stop)
	return p
}

// has waits until the peer has these transactions, five to a block.
func (p *following) has(ids []string) {
	p.t.Helper()
	for i, id := range ids {
		s, err := p.Status(p.ctx, id)
		require.NoError(p.t, err)
		assert.Equal(p.t, chain.Status{Position: chain.Position{Block: uint64(1 + i/5), Tx: uint64(i % 5)}}, s)
	}
}

// hasSealed waits until the peer has this many blocks, the first one included.
func (p *following) hasSealed(blocks uint64) {
	p.t.Helper()
	for p.Height() < blocks {
		changed := p.UntilChanged()
		if p.Height() < blocks {
			select {
			case <-changed:
			case <-p.ctx.Done():
				p.t.Fatal("the last seal did not arrive")
			}
		}
	}
}

// order makes blocks of five transactions each: their ids, and what an orderer sends.
func order(w *peertest.World, blocks int) (ids []string, sent [][]*streampb.Item) {
	sealer := w.NewOrderer()
	for range blocks {
		var txs [][]byte
		var items []*streampb.Item
		for range 5 {
			raw, id := w.Make(peertest.Tx{})
			ids = append(ids, id)
			txs = append(txs, raw)
			items = append(items, txItem(raw))
		}
		header, metadata := sealer.Seal(txs)
		sent = append(sent, append(items, &streampb.Item{Kind: &streampb.Item_Seal{Seal: &streampb.Seal{Header: header, Metadata: metadata}}}))
	}
	return ids, sent
}

// TestFailover: two orderers that break off every few items and one that is not there;
// every position is received once, in order.
func TestFailover(t *testing.T) {
	one, two := &orderer{t: t, serve: 3}, &orderer{t: t, serve: 4}
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{"127.0.0.1:1", listen(t, one), listen(t, two)}})
	ids, items := order(w, 4)
	one.items, two.items = items, items
	p := follows(t, w, &follow.Follower{})
	p.has(ids)
	p.hasSealed(5)
	p.stop()
	assert.Positive(t, one.times())
	assert.Positive(t, two.times())
}

// TestMovesToTheLeader: whoever is asked first, the leader is followed in the end, without
// a break of the order, since the others name it.
func TestMovesToTheLeader(t *testing.T) {
	leader := &orderer{t: t, serve: 1000}
	address := listen(t, leader)
	one := &orderer{t: t, serve: 1000, leader: address, until: leader}
	two := &orderer{t: t, serve: 1000, leader: address, until: leader}
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{address, listen(t, one), listen(t, two)}})
	ids, items := order(w, 4)
	one.items, two.items, leader.items = items, items, items
	for _, peer := range []string{"peer0", "peer1"} { // these two begin at different orderers
		p := follows(t, w, &follow.Follower{Name: peer, Patience: time.Hour})
		p.has(ids)
		p.stop()
	}
	leader.mu.Lock()
	defer leader.mu.Unlock()
	require.Len(t, leader.asked, 2)
	fresh := chain.Position{Block: 1}
	assert.False(t, leader.asked[0] == fresh && leader.asked[1] == fresh, "one of them was sent on in the middle of the order")
}

// TestWhatIsLargerThanTheConfigurationAllowsIsReceived: it may have been checked under the one before, and ordered after.
func TestWhatIsLargerThanTheConfigurationAllowsIsReceived(t *testing.T) {
	o := &orderer{t: t, serve: 1000}
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{listen(t, o)}})
	raw, _ := w.Make(peertest.Tx{Results: make([]byte, 30<<20)})
	header, metadata := w.NewOrderer().Seal([][]byte{raw})
	o.items = [][]*streampb.Item{{txItem(raw), {Kind: &streampb.Item_Seal{Seal: &streampb.Seal{Header: header, Metadata: metadata}}}}}
	p := follows(t, w, &follow.Follower{})
	p.hasSealed(2)
}

// lies are what an orderer may make of the first block's transactions and seal; w makes more transactions.
var lies = map[string]func(w *peertest.World, block []*streampb.Item) []*streampb.Item{
	"another transaction": func(w *peertest.World, block []*streampb.Item) []*streampb.Item {
		forged, _ := w.Make(peertest.Tx{})
		block[2] = txItem(forged)
		return block
	},
	"two transactions in one item": func(_ *peertest.World, block []*streampb.Item) []*streampb.Item {
		return append([]*streampb.Item{txItem(slices.Concat(block[0].GetTx(), block[1].GetTx()))}, block[2:]...)
	},
	"transactions without end": func(w *peertest.World, block []*streampb.Item) []*streampb.Item {
		block = block[:len(block)-1]
		for range 100 { // what a virtual block may have at most
			raw, _ := w.Make(peertest.Tx{})
			block = append(block, txItem(raw))
		}
		return block
	},
}

func txItem(raw []byte) *streampb.Item { return &streampb.Item{Kind: &streampb.Item_Tx{Tx: raw}} }

// TestALyingOrdererIsLeft: what it sends is not what the others have ordered, and the block comes from another one. Where
// there is nobody else, the peer ends.
func TestALyingOrdererIsLeft(t *testing.T) {
	for name, lie := range lies {
		for _, honest := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", with an honest one", false: ", alone"}[honest], func(t *testing.T) {
				liar, other := &orderer{t: t, serve: 1000}, &orderer{t: t, serve: 1000}
				address := listen(t, liar)
				addresses := []string{address}
				if honest {
					addresses = append(addresses, listen(t, other), address)
					other.leader = address // honest ones may still follow it
				}
				w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: addresses})
				ids, items := order(w, 3)
				liar.items, other.items = [][]*streampb.Item{lie(w, slices.Clone(items[0])), items[1], items[2]}, items
				p := follows(t, w, &follow.Follower{})
				if honest {
					p.has(ids)
					for _, item := range liar.items[0] {
						if msg, err := protoutil.ParseEnvelope(item.GetTx()); err == nil && !slices.Contains(ids, msg.Channel.TxId) {
							_, err := p.Find(msg.Channel.TxId)
							assert.ErrorIs(t, err, chain.ErrNotFound)
						}
					}
				} else {
					require.ErrorContains(t, <-p.ended, "no orderer sends what fits this peer's chain")
				}
				p.stop()
				assert.Positive(t, liar.times())
			})
		}
	}
}

// TestTheOneWhoForgedABlockIsBlamed: it leaves before its seal is checked. The peer is with an honest orderer by then,
// who names it as the leader.
func TestTheOneWhoForgedABlockIsBlamed(t *testing.T) {
	blamesTheForger(t)
}

// TestTheForgerIsBlamedAtOnce, though the chain, which goes back to before the block, has not yet said so to all.
func TestTheForgerIsBlamedAtOnce(t *testing.T) {
	blamesTheForger(t, func(c *chain.Chain) follow.Chain { return &slow{c, map[<-chan struct{}]<-chan struct{}{}} })
}

// slow is a chain that takes for ever to close what tells of a block that is taken back.
type slow struct {
	*chain.Chain
	open map[<-chan struct{}]<-chan struct{}
}

func (s *slow) Rewound() <-chan struct{} {
	gone := s.Chain.Rewound()
	if s.open[gone] == nil {
		s.open[gone] = make(chan struct{})
	}
	return s.open[gone]
}

func blamesTheForger(t *testing.T, wrapped ...func(*chain.Chain) follow.Chain) {
	t.Helper()
	liar := &orderer{t: t}
	honest := &orderer{t: t, serve: 1000, after: liar, pace: 100 * time.Millisecond}
	addresses := []string{listen(t, liar), listen(t, honest)}
	honest.leader = addresses[0]
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: addresses})
	ids, items := order(w, 3)
	honest.items = items
	last := len(items[0]) - 1
	forged := slices.Clone(items[0][:last])
	for range 90 { // their signatures take a while
		raw, _ := w.Make(peertest.Tx{})
		forged = append(forged, txItem(raw))
	}
	liar.items = [][]*streampb.Item{append(forged, items[0][last]), {nil}}
	liar.serve = len(liar.items[0])
	hears(t, w, ids, time.Minute, wrapped...)
	assert.Equal(t, 1, liar.times(), "it is followed once")
}

// unnamed is a chain whose configuration names no orderer until it is told to.
type unnamed struct {
	*chain.Chain
	asked atomic.Int64
	named atomic.Bool
}

func (u *unnamed) Bundle() *channelconfig.Bundle {
	b := *u.Chain.Bundle()
	if u.asked.Add(1); !u.named.Load() {
		b.Orderer.Addresses = nil
	}
	return &b
}

// TestNoOrdererIsNamed: the peer has other channels, and goes on.
func TestNoOrdererIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	o := &orderer{t: t, serve: 100}
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{listen(t, o)}})
	ids, items := order(w, 1)
	o.items = items
	var u *unnamed
	p := follows(t, w, &follow.Follower{}, func(c *chain.Chain) follow.Chain {
		u = &unnamed{Chain: c}
		return u
	})
	require.Eventually(t, func() bool { return u.asked.Load() > 1 }, longest, 10*time.Millisecond)
	u.named.Store(true)
	p.has(ids)
	p.stop()
}
