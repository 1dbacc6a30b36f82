package sequencer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

var errBroken = errors.New("broken")

// flaky is a sequencer that each time is reached, or not, until its times are over. Reached it lets transactions in, and
// breaks, always with the same words.
type flaky struct {
	sequencerpb.SequencerClient
	node    *Node
	reached []bool
	over    chan struct{}
}

func (f *flaky) Last(ctx context.Context, _ *sequencerpb.LastRequest, _ ...grpc.CallOption) (*sequencerpb.LastResponse, error) {
	if len(f.reached) == 0 {
		close(f.over)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	reached := f.reached[0]
	f.reached = f.reached[1:]
	if !reached {
		return nil, errBroken
	}
	return &sequencerpb.LastResponse{}, nil
}

func (f *flaky) Get(context.Context, *sequencerpb.GetRequest, ...grpc.CallOption) (sequencerpb.Sequencer_GetClient, error) {
	return &breaking{node: f.node}, nil
}

func (f *flaky) Order(ctx context.Context, _ ...grpc.CallOption) (sequencerpb.Sequencer_OrderClient, error) {
	return &unanswering{ctx: ctx}, nil
}

// breaking is a stream that breaks once transactions are let in.
type breaking struct {
	sequencerpb.Sequencer_GetClient
	node *Node
}

func (b *breaking) Recv() (*sequencerpb.Blobs, error) {
	for !b.node.connected.Load() {
		time.Sleep(time.Millisecond)
	}
	return nil, errBroken
}

type unanswering struct {
	sequencerpb.Sequencer_OrderClient
	ctx context.Context
}

func (u *unanswering) Recv() (*sequencerpb.OrderResponse, error) {
	<-u.ctx.Done()
	return nil, u.ctx.Err()
}

// TestEachOutageIsToldOfOnce, also where it says the same as the one before.
func TestEachOutageIsToldOfOnce(t *testing.T) {
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	n := newNode("ch", conn, func() time.Duration { return time.Hour }, &ledger{})
	s := &flaky{node: n, reached: []bool{false, false, true, false, true, false, false}, over: make(chan struct{})}
	n.sequencer = s
	var told []string
	n.tell = func(level ops.Level, format string, args ...any) {
		told = append(told, level.String()+" "+fmt.Sprintf(format, args...))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-s.over
	cancel()
	require.NoError(t, <-ended)
	const away = "warn [channel: ch] the sequencer is away, trying again: broken"
	assert.Equal(t, []string{away, away, away}, told, "before it was reached, and each time after")
}
