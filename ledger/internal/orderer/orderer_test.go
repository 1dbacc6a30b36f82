package orderer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

const ch = "mychannel"

func solo(o *setup.Options) { o.Consenter, o.Orderers = "solo", 1 }

func TestOneClientThroughEveryOrderer(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) {
		o.Channels = []string{ch, "second"}
		o.VirtualBlockTxs, o.VirtualBlockInterval = 4, time.Hour
	})
	for i := range 3 {
		c.start(i)
	}
	c.order(c.message(ch, "first"))
	want := []string{"first"}
	for i := range 12 { // two of three orderers have to forward
		text := fmt.Sprintf("tx%d", i)
		c.orderAt(i%3, text)
		want = append(want, text)
	}
	c.order(c.message("second", "elsewhere"))
	for i := range 3 {
		assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
		assert.Equal(t, []string{"elsewhere"}, c.texts(i, "second", &streampb.Position{Block: 1}, 1))
	}
	// The blocks that followers of different orderers see have equal headers and valid signatures.
	_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(t, err)
	var first []*commonpb.Block
	for i := range 3 {
		blocks, err := c.blocks(i, ch, 0, 3)
		require.NoError(t, err)
		require.Len(t, blocks, 4)
		for n, b := range blocks[1:] {
			require.NoError(t, bundle.VerifySeal(b.Header, b.Metadata))
			assert.Equal(t, protoutil.BlockHeaderHash(blocks[n].Header), b.Header.PreviousHash)
			assert.Len(t, b.Data.Data, 4)
		}
		if first == nil {
			first = blocks
		}
		for n := range blocks {
			assert.True(t, proto.Equal(first[n].Header, blocks[n].Header), "block %d", n)
		}
	}
}

// TestTheLeaderIsNamed: whoever asks another orderer learns the leader's address, as peers know it.
func TestTheLeaderIsNamed(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	for i := range 3 {
		c.start(i)
	}
	c.order(c.message(ch, "first"))
	var named map[string]int
	require.Eventually(t, func() bool { // another election may come in between
		named = map[string]int{}
		for i := range 3 {
			r, err := c.broadcast(context.Background(), i, c.message(ch, fmt.Sprint(i)))
			if err != nil || r.Status != commonpb.Status_SUCCESS {
				return false
			}
			if r.Info == "" {
				r.Info = c.node(i).Address // it leads itself
			}
			named[r.Info]++
		}
		return len(named) == 1
	}, patience, 10*time.Millisecond, "all name the same one")
	_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(t, err)
	for address := range named {
		assert.Contains(t, bundle.Orderer.Addresses, address)
	}
}

func TestFollowFromTheMiddleOfABlock(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.VirtualBlockTxs = 3; o.VirtualBlockInterval = time.Hour })
	c.start(0)
	for i := range 7 {
		c.order(c.message(ch, fmt.Sprint(i)))
	}
	assert.Equal(t, []string{"2", "3", "4", "5", "6"}, c.texts(0, ch, &streampb.Position{Block: 1, Tx: 2}, 5))
	assert.Equal(t, []string{"6"}, c.texts(0, ch, &streampb.Position{Block: 3}, 1))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := c.follow(ctx, 0, ch, &streampb.Position{Block: 1, Tx: 9}).Recv()
	assert.Equal(t, codes.NotFound, status.Code(err), err)
	// Block 0 holds one transaction, the configuration.
	_, err = c.follow(ctx, 0, ch, &streampb.Position{Tx: 9}).Recv()
	assert.Equal(t, codes.NotFound, status.Code(err), err)
	// A follower that is ahead of this orderer waits for it.
	ahead := c.follow(ctx, 0, ch, &streampb.Position{Block: 3, Tx: 2})
	c.order(c.message(ch, "7"))
	c.order(c.message(ch, "8"))
	batch, err := ahead.Recv()
	require.NoError(t, err)
	msg, err := protoutil.ParseEnvelope(batch.Items[0].GetTx())
	require.NoError(t, err)
	assert.Equal(t, "8", string(msg.Data))
}

func TestAQuietBlockIsSealedByTime(t *testing.T) {
	for _, mode := range []string{"stream", "block"} {
		c := newCluster(t, func(o *setup.Options) {
			solo(o)
			o.Mode, o.VirtualBlockInterval, o.BatchTimeout = mode, 30*time.Millisecond, 30*time.Millisecond
		})
		c.start(0)
		c.order(c.message(ch, "a"))
		blocks, err := c.blocks(0, ch, 1, 1) // waits for it
		require.NoError(t, err)
		assert.Len(t, blocks[0].Data.Data, 1, mode)
	}
}

func TestBlockModeShowsWholeBlocks(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.Mode, o.MaxMessageCount, o.BatchTimeout = "block", 2, time.Hour })
	c.start(0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := c.follow(ctx, 0, ch, &streampb.Position{Block: 1})
	for _, text := range []string{"a", "b", "c"} {
		c.order(c.message(ch, text))
	}
	batch, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, batch.Items, 3, "two transactions and the seal")
	assert.Equal(t, uint64(1), batch.Items[2].GetSeal().GetHeader().GetNumber())
	c.order(c.message(ch, "d"))
	batch, err = stream.Recv()
	require.NoError(t, err)
	assert.Len(t, batch.Items, 3)
}

func TestEnvelopesThatAreRefused(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.AbsoluteMaxBytes = 3 << 20 })
	c.start(0)
	c.order(c.message(ch, "works"))
	authority, err := ca.New("ca", "org1.example.com")
	require.NoError(t, err)
	cert, key, err := authority.Issue(ca.Request{CommonName: "User1", Unit: "client"})
	require.NoError(t, err)
	stranger, err := identity.NewSigner("Org1MSP", cert, key)
	require.NoError(t, err)
	foreign, _, err := protoutil.NewEnvelope(commonpb.HeaderType_MESSAGE, ch, stranger, nil, nil)
	require.NoError(t, err)
	changed := c.message(ch, "changed")
	changed.Payload = append(changed.Payload, changed.Payload[len(changed.Payload)-9:]...)
	tampered := c.message(ch, "x")
	tampered.Signature = append([]byte{}, c.message(ch, "x").Signature...)
	config, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG, ch, c.client, nil, nil)
	require.NoError(t, err)
	more := c.message(ch, "x")
	more.ProtoReflect().SetUnknown(protoreflect.RawFields{0x18, 1})
	for name, test := range map[string]struct {
		env  *commonpb.Envelope
		want commonpb.Status
	}{
		"no nonce":         {c.withoutNonce(commonpb.HeaderType_MESSAGE, ch, nil, time.Now()), commonpb.Status_BAD_REQUEST},
		"no payload":       {&commonpb.Envelope{}, commonpb.Status_BAD_REQUEST},
		"garbage":          {&commonpb.Envelope{Payload: []byte("nonsense")}, commonpb.Status_BAD_REQUEST},
		"unknown channel":  {c.message("nowhere", "x"), commonpb.Status_NOT_FOUND},
		"foreign identity": {foreign, commonpb.Status_FORBIDDEN},
		"wrong signature":  {tampered, commonpb.Status_FORBIDDEN},
		"payload changed":  {changed, commonpb.Status_FORBIDDEN},
		"too large":        {c.message(ch, strings.Repeat("x", 3<<20)), commonpb.Status_BAD_REQUEST},
		"configuration":    {config, commonpb.Status_BAD_REQUEST},
		"not well-formed":  {more, commonpb.Status_BAD_REQUEST},
	} {
		r, err := c.broadcast(context.Background(), 0, test.env)
		require.NoError(t, err, name)
		assert.Equal(t, test.want, r.Status, "%s: %s", name, r.Info)
		assert.NotEmpty(t, r.Info, name)
	}
	_, err = c.blocks(0, "nowhere", 0, 0)
	require.ErrorContains(t, err, "NOT_FOUND")
	seek, err := proto.Marshal(&ordererpb.SeekInfo{Start: seekNumber(0), Stop: seekNumber(0)})
	require.NoError(t, err)
	blocks, err := c.deliver(0, c.withoutNonce(commonpb.HeaderType_DELIVER_SEEK_INFO, ch, seek, time.Now()))
	require.NoError(t, err, "a request for blocks needs none")
	assert.Len(t, blocks, 1)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		_, err = c.deliver(0, c.withoutNonce(commonpb.HeaderType_DELIVER_SEEK_INFO, ch, seek, time.Now().Add(off)))
		require.ErrorContains(t, err, "BAD_REQUEST", "a recorded request")
	}
	_, err = c.blocks(0, ch, 5, 4)
	require.ErrorContains(t, err, "BAD_REQUEST")
	c.client = stranger
	_, err = c.blocks(0, ch, 0, 0)
	require.ErrorContains(t, err, "FORBIDDEN")
}

func TestStepIsForConsentersOnly(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	c.start(0)
	stream, err := ordererpb.NewClusterClient(c.conn(0)).Step(context.Background())
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, codes.Unauthenticated, status.Code(err), err)
}

func TestAProposalOfAnotherOrdererIsRefused(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	cfg, err := nodeconfig.Load(c.config(0), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	node, err := Open(cfg)
	require.NoError(t, err)
	group := node.channels[ch].group.Load()
	for from, m := range group.members {
		payload, err := proto.Marshal(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: proto.Uint64(from), To: proto.Uint64(group.id)})
		require.NoError(t, err)
		request := &ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
			ConsensusRequest: &ordererpb.ConsensusRequest{Channel: ch, Payload: payload},
		}}
		assert.Equal(t, codes.InvalidArgument, status.Code(node.step(m.client, request, nil)), "Raft would panic")
	}
}

// TestWhatIsForwardedIsWellFormed, also where the one who forwards it says that it was checked: in a block nobody would
// take it, nor what comes after it.
func TestWhatIsForwardedIsWellFormed(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	cfg, err := nodeconfig.Load(c.config(0), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	node, err := Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	for name, test := range map[string]struct {
		more    []byte
		refused []commonpb.Status
	}{
		"well-formed":     {nil, []commonpb.Status{commonpb.Status_SERVICE_UNAVAILABLE}}, // nobody leads
		"one field more":  {[]byte{0x18, 1}, []commonpb.Status{commonpb.Status_BAD_REQUEST}},
		"payload again":   {[]byte{0x0a, 1, 'x'}, []commonpb.Status{commonpb.Status_BAD_REQUEST}},
		"signature again": {[]byte{0x12, 1, 'x'}, []commonpb.Status{commonpb.Status_BAD_REQUEST}},
	} {
		env := c.message(ch, "x")
		env.ProtoReflect().SetUnknown(test.more)
		var refused []commonpb.Status
		channel.forwarded(&ordererpb.SubmitRequest{Channel: ch, LastValidationSeq: channel.Bundle().Sequence, Payload: env},
			func(r *ordererpb.SubmitResponse) { refused = append(refused, r.Status) })
		assert.Equal(t, test.refused, refused, name)
	}
}

// TestWhatIsForwardedIsCheckedWhereOrderersMayLie: with Raft the word of the one who forwards it is enough.
func TestWhatIsForwardedIsCheckedWhereOrderersMayLie(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	cfg, err := nodeconfig.Load(c.config(0), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	node, err := Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	tampered := c.message(ch, "x")
	tampered.Signature[10]++
	config, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG, ch, c.client, nil, nil)
	require.NoError(t, err)
	verdict := func(env *commonpb.Envelope) (status commonpb.Status) {
		channel.forwarded(&ordererpb.SubmitRequest{Channel: ch, LastValidationSeq: channel.Bundle().Sequence, Payload: env},
			func(r *ordererpb.SubmitResponse) { status = r.Status })
		return status
	}
	for _, env := range []*commonpb.Envelope{c.message(ch, "x"), tampered, config} {
		assert.Equal(t, commonpb.Status_SERVICE_UNAVAILABLE, verdict(env), "nobody leads")
	}
	channel.Bundle().Orderer.ConsensusType = "bft"
	assert.Equal(t, commonpb.Status_SERVICE_UNAVAILABLE, verdict(c.message(ch, "x")))
	assert.Equal(t, commonpb.Status_FORBIDDEN, verdict(tampered))
	assert.Equal(t, commonpb.Status_BAD_REQUEST, verdict(config))
}

// TestWithoutTLSOnlyOthersIDsAreHeard: whoever reaches an orderer could otherwise have it remember any number of ids.
func TestWithoutTLSOnlyOthersIDsAreHeard(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.NoTLS = true })
	cfg, err := nodeconfig.Load(c.config(0), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	node, err := Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	own := channel.group.Load().id
	for from := range uint64(10) {
		payload, err := proto.Marshal(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(from), To: proto.Uint64(own)})
		require.NoError(t, err)
		require.NoError(t, node.step(nil, &ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
			ConsensusRequest: &ordererpb.ConsensusRequest{Channel: ch, Payload: payload},
		}}, nil))
	}
	_, waiting := channel.part().Queued()
	assert.Equal(t, 2, waiting, "of the other two")
}

// load orders envelopes from several clients until told to stop, and records which were acknowledged.
type load struct {
	mu    sync.Mutex
	acked map[string]bool
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func startLoad(c *testCluster, clients int) (l *load, stop func()) {
	l = &load{acked: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	for id := range clients {
		group.Go(func() error {
			for n := 0; ctx.Err() == nil; n++ {
				text := fmt.Sprintf("client %d, %d", id, n)
				r, err := c.broadcast(ctx, (id+n)%3, c.message(ch, text))
				if err == nil && r.Status == commonpb.Status_SUCCESS {
					l.mu.Lock()
					l.acked[text] = true
					l.mu.Unlock()
				}
			}
			return nil
		})
	}
	return l, func() { cancel(); _ = group.Wait() }
}

func (l *load) waitFor(t *testing.T, n int) {
	t.Helper()
	start := l.count()
	require.Eventually(t, func() bool { return l.count() >= start+n }, patience, 10*time.Millisecond)
}

// check compares the chains of all orderers with each other and with what was acknowledged. All have what level has
// waited for; what clients had sent before they left may have been ordered even later, and not be everywhere yet.
func (l *load) check(t *testing.T, c *testCluster, end string) {
	t.Helper()
	var hashes, texts []string
	for i := range 3 {
		h, x := c.chainOnDisk(i, ch)
		if len(h) > len(hashes) {
			hashes, texts = h, x
		}
	}
	seen := map[string]int{}
	for _, text := range texts {
		seen[text]++
	}
	for text := range l.acked {
		assert.Positive(t, seen[text], "%s was acknowledged and is lost", text)
	}
	for i := range 3 {
		h, x := c.chainOnDisk(i, ch)
		assert.Equal(t, hashes[:len(h)], h, "orderer %d has another chain", i+1)
		assert.Contains(t, x, end, "orderer %d is behind", i+1)
	}
}

// level waits until all three orderers have given out a transaction that is ordered now, in a sealed block, and says which.
func level(t *testing.T, c *testCluster) (end string) {
	t.Helper()
	end = fmt.Sprint("the end ", time.Now().UnixNano())
	c.order(c.message(ch, end))
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		stream := c.follow(ctx, i, ch, &streampb.Position{Block: 1})
		for last, sealed := false, false; !sealed; {
			batch, err := stream.Recv()
			require.NoError(t, err)
			for _, item := range batch.Items {
				last = last || strings.Contains(string(item.GetTx()), end)
				sealed = last && item.GetSeal() != nil
			}
		}
		cancel()
	}
	return end
}

func TestKilledOrderersLoseNothing(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.VirtualBlockTxs, o.SnapshotBytes = 7, 64<<10 })
	end := make([]func(os.Signal), 3)
	for i := range 3 {
		end[i] = c.spawn(i)
	}
	c.order(c.message(ch, "first"))
	l, stop := startLoad(c, 6)
	for round := range 4 { // each is killed at least once, so is the leader, whoever it is
		l.waitFor(t, 150)
		end[round%3](syscall.SIGKILL)
		l.waitFor(t, 50) // the other two go on
		end[round%3] = c.spawn(round % 3)
	}
	l.waitFor(t, 100)
	for i := range 3 { // all at once
		end[i](syscall.SIGKILL)
	}
	for i := range 3 {
		end[i] = c.spawn(i)
	}
	l.waitFor(t, 100)
	stop()
	last := level(t, c)
	for i := range 3 {
		end[i](syscall.SIGTERM) // a clean end writes all blocks out; after a SIGKILL the log still has the last ones
	}
	l.check(t, c, last)
}

func TestAnOrdererThatWasAwayCatchesUpFromASnapshot(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.VirtualBlockTxs, o.SnapshotBytes = 10, 32<<10 })
	end := make([]func(os.Signal), 3)
	for i := range 3 {
		end[i] = c.spawn(i)
	}
	c.order(c.message(ch, "first"))
	l, stop := startLoad(c, 4)
	l.waitFor(t, 50)
	end[2](syscall.SIGKILL)
	l.waitFor(t, 400) // far more than the log keeps
	end[2] = c.spawn(2)
	l.waitFor(t, 50)
	stop()
	last := level(t, c)
	for i := range 3 {
		end[i](syscall.SIGTERM)
	}
	l.check(t, c, last)
	said, err := os.ReadFile(filepath.Join(c.dir, c.node(2).Log))
	require.NoError(t, err)
	assert.Contains(t, string(said), "Taking snapshot at index")
}
