package orderer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

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
		r, err := c.ask(0, test.env)
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
	const bad, good = "BAD_REQUEST", "<nil>" // a recorded request is refused
	for off, want := range map[time.Duration]string{-16 * time.Minute: bad, -14 * time.Minute: good, 14 * time.Minute: good, 16 * time.Minute: bad} {
		_, err = c.deliver(0, c.withoutNonce(commonpb.HeaderType_DELIVER_SEEK_INFO, ch, seek, time.Now().Add(off)))
		assert.Equal(t, want, fmt.Sprint(err), off)
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

// TestNoLongNameComesBack to an orderer, or one that says so: the channel is looked for first.
func TestNoLongNameComesBack(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	name := strings.Repeat("\a", 1<<20)
	for _, request := range []*ordererpb.StepRequest{
		{Payload: &ordererpb.StepRequest_SubmitRequest{SubmitRequest: &ordererpb.SubmitRequest{Channel: name}}},
		{Payload: &ordererpb.StepRequest_ConsensusRequest{ConsensusRequest: &ordererpb.ConsensusRequest{Channel: name}}},
	} {
		err := node.step([]byte("a certificate"), request, nil)
		assert.Equal(t, codes.NotFound, status.Code(err))
		assert.Less(t, len(err.Error()), 4<<10)
		for _, m := range node.channels[ch].group.Load().members {
			answers := make(chan *ordererpb.SubmitResponse, 1)
			require.NoError(t, node.step(m.client, request, answers))
			assert.Empty(t, answers)
		}
	}
}

// TestWhatIsForAnotherChannelEndsNoStream: a channel that this orderer has not joined may name it already, and the stream is
// of all channels.
func TestWhatIsForAnotherChannelEndsNoStream(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node, _ := c.startNode(0)
	cfg, err := nodeconfig.Load(c.config(1), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	certificate, err := cfg.Certificate()
	require.NoError(t, err)
	conn, err := cluster.Dial(c.node(0).Address, certificate, node.channels[ch].Bundle().Orderer.TLSRoots, nil, 1<<20)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := ordererpb.NewClusterClient(conn).Step(ctx)
	require.NoError(t, err)
	env := c.message(ch, "x")
	raw, err := proto.Marshal(env)
	require.NoError(t, err)
	key := sha256.Sum256(raw)
	logged := opstest.Logged(t, func() {
		for range 2 {
			require.NoError(t, stream.Send(&ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
				ConsensusRequest: &ordererpb.ConsensusRequest{Channel: "second"},
			}}))
		}
		for _, to := range []struct {
			channel string
			answer  commonpb.Status
		}{{"second", commonpb.Status_NOT_FOUND}, {ch, commonpb.Status_SERVICE_UNAVAILABLE}} { // nobody leads
			require.NoError(t, stream.Send(&ordererpb.StepRequest{Payload: &ordererpb.StepRequest_SubmitRequest{
				SubmitRequest: &ordererpb.SubmitRequest{Channel: to.channel, Payload: env},
			}}))
			response, err := stream.Recv()
			require.NoError(t, err)
			assert.Equal(t, to.channel, response.GetSubmitRes().GetChannel())
			assert.Equal(t, to.answer, response.GetSubmitRes().GetStatus())
			assert.True(t, strings.HasPrefix(response.GetSubmitRes().GetInfo(), hex.EncodeToString(key[:])+" "))
		}
	})
	assert.Equal(t, 1, strings.Count(logged, "messages of other orderers are dropped"), logged)
	assert.Contains(t, logged, `[channel: second] messages of other orderers are dropped: channel does not exist: "second"`)
}

// TestAChannelWhoseOrderersDoNotTalkEndsNoStream of a consenter; that of others it does.
func TestAChannelWhoseOrderersDoNotTalkEndsNoStream(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	external := &channel{name: "external", kind: kinds[channelconfig.Kafka]}
	external.group.Store(&group{})
	node.channels["external"] = external
	defer delete(node.channels, "external")
	request := &ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
		ConsensusRequest: &ordererpb.ConsensusRequest{Channel: "external"},
	}}
	for _, m := range node.channels[ch].group.Load().members {
		require.NoError(t, node.step(m.client, request, nil))
	}
	assert.Equal(t, codes.FailedPrecondition, status.Code(node.step([]byte("a certificate"), request, nil)))
}

func TestAProposalOfAnotherOrdererIsRefused(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer node.close()
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
	node := c.open(0)
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
	node := c.open(0)
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

// TestWhatIsForwardedAgain, after it was ordered, is no refusal, and one orderer of which some may lie does not end another
// with it.
func TestWhatIsForwardedAgain(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			c := newCluster(t, agreeingBy(consenter, 4))
			nodes := make([]*Node, 4)
			for i := range nodes {
				nodes[i], _ = c.startNode(i)
			}
			env := c.message(ch, "once")
			c.order(env)
			c.orderAt(0, "orderer 1 has applied what was before it")
			group := nodes[0].channels[ch].group.Load()
			sender := group.members[group.id%4+1]
			answers := make(chan *ordererpb.SubmitResponse, 1)
			require.NoError(t, nodes[0].step(sender.client, &ordererpb.StepRequest{Payload: &ordererpb.StepRequest_SubmitRequest{
				SubmitRequest: &ordererpb.SubmitRequest{Channel: ch, Payload: env},
			}}, answers))
			c.orderAt(0, "orderer 1 has taken what was before it")
			assert.Empty(t, answers)
		})
	}
}

// TestWithoutTLSOnlyOthersIDsAreHeard: whoever reaches an orderer could otherwise have it remember any number of ids.
func TestWithoutTLSOnlyOthersIDsAreHeard(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.NoTLS = true })
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	own := channel.group.Load().id
	for from := range uint64(10) {
		payload, err := proto.Marshal(&raftpb.Message{
			Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(from), To: proto.Uint64(own), Term: proto.Uint64(1),
		})
		require.NoError(t, err)
		require.NoError(t, node.step(nil, &ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
			ConsensusRequest: &ordererpb.ConsensusRequest{Channel: ch, Payload: payload},
		}}, nil))
	}
	require.NoError(t, node.step(nil, &ordererpb.StepRequest{}, nil), "of a channel that is not here")
	_, waiting := channel.part().Queued()
	assert.Equal(t, 2, waiting, "of the other two")
}

// led is a consenter that says who leads, and notes who is out of reach.
type led struct {
	consensus.Consenter
	by          uint64
	unreachable []uint64
}

func (l *led) Leader() uint64 { return l.by }

func (l *led) Unreachable(id uint64) { l.unreachable = append(l.unreachable, id) }

// TestWhoMayRefuseForTheLeader: nobody else, nobody where orderers may lie, and none says in this way that a transaction is
// ordered, or anything that has no name.
func TestWhoMayRefuseForTheLeader(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	own := channel.group.Load().id
	leads, other := own%3+1, (own+1)%3+1
	const refused = commonpb.Status_BAD_REQUEST
	for name, test := range map[string]struct {
		kind    string
		leads   uint64
		says    commonpb.Status
		answers []commonpb.Status
	}{
		"the leader":           {channelconfig.Raft, leads, refused, []commonpb.Status{refused}},
		"the leader, success":  {channelconfig.Raft, leads, commonpb.Status_SUCCESS, []commonpb.Status{commonpb.Status_SERVICE_UNAVAILABLE}},
		"the leader, a number": {channelconfig.Raft, leads, 12345, []commonpb.Status{commonpb.Status_SERVICE_UNAVAILABLE}},
		"another one":          {channelconfig.Raft, other, refused, nil},
		"nobody leads":         {channelconfig.Raft, 0, refused, nil},
		"who leads may lie":    {channelconfig.BFT, leads, refused, nil},
		"others may lie":       {channelconfig.BFT, other, commonpb.Status_SUCCESS, nil},
	} {
		t.Run(name, func(t *testing.T) {
			channel.Bundle().Orderer.ConsensusType = test.kind
			channel.taking.Store(&membership{&led{by: test.leads}, nil})
			w := channel.waiting.add([]byte(name))
			node.Refused(channel.group.Load().remotes[leads],
				&ordererpb.SubmitResponse{Channel: ch, Status: test.says, Info: hex.EncodeToString(w.key[:]) + " no"})
			var answers []commonpb.Status
			for len(w.result) > 0 {
				answers = append(answers, statusOf(<-w.result))
			}
			assert.Equal(t, test.answers, answers)
		})
	}
}

// TestTheLeadersLastWordsAreHeard: what was handed to it before its certificate changed is refused on the connection before.
func TestTheLeadersLastWordsAreHeard(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	first := channel.group.Load()
	leads, other := first.id%3+1, (first.id+1)%3+1
	channel.taking.Store(&membership{&led{by: leads}, nil})
	adopt := func(server []byte) {
		g := &group{bundle: first.bundle, id: first.id, members: maps.Clone(first.members)}
		m := g.members[leads]
		m.server = server
		g.members[leads] = m
		channel.grouping.Lock()
		defer channel.grouping.Unlock()
		channel.adopt(g)
	}
	heard := func(by uint64) bool {
		w := channel.waiting.add([]byte("tx"))
		defer channel.waiting.forget(w)
		node.Refused(first.remotes[by], &ordererpb.SubmitResponse{
			Channel: ch, Status: commonpb.Status_BAD_REQUEST, Info: hex.EncodeToString(w.key[:]) + " no",
		})
		return len(w.result) > 0
	}
	adopt([]byte("another certificate"))
	require.NotSame(t, first.remotes[leads], channel.group.Load().remotes[leads])
	assert.True(t, heard(leads))
	assert.False(t, heard(other))
	adopt([]byte("a third certificate"))
	assert.False(t, heard(leads), "it has left long ago")
}

// TestOneConnectionOfTwoBreaks to the same address: of those that two channels have while they name different certificates
// of it, or of the one that another has replaced.
func TestOneConnectionOfTwoBreaks(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	channel := node.channels[ch]
	leads := channel.group.Load().id%3 + 1
	part := &led{by: leads}
	channel.taking.Store(&membership{part, nil})
	m := channel.group.Load().members[leads]
	m.server = channel.group.Load().members[leads%3+1].server
	other, err := node.remotes.take(m)
	require.NoError(t, err)
	w := channel.waiting.add([]byte("tx"))

	node.Down(other)
	assert.Empty(t, part.unreachable)
	assert.Empty(t, w.result)
	node.Down(channel.group.Load().remotes[leads])
	assert.Equal(t, []uint64{leads}, part.unreachable)
	require.Len(t, w.result, 1)
	assert.ErrorIs(t, <-w.result, errConnection)
}
