package sequencer

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// counting is a context that counts those below it that have not ended.
type counting struct {
	context.Context
	done  chan struct{}
	below int
}

// Done never comes. A context without it would never be told of those below it.
func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.below++
	return func() bool {
		c.below--
		return true
	}
}

// refusing is a sequencer that tells where its log ends, and gives nothing of it.
type refusing struct{ sequencerpb.SequencerClient }

func (refusing) Last(context.Context, *sequencerpb.LastRequest, ...grpc.CallOption) (*sequencerpb.LastResponse, error) {
	return &sequencerpb.LastResponse{}, nil
}

func (refusing) Get(context.Context, *sequencerpb.GetRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[sequencerpb.Blobs], error) {
	return nil, errors.New("refused")
}

// TestASessionThatFailsLeavesNothingBehind, where the next one begins 50 ms later, for as long as the facade runs.
func TestASessionThatFailsLeavesNothingBehind(t *testing.T) {
	n := facade(t, &ledger{})
	n.sequencer = refusing{}
	ctx := &counting{Context: context.Background(), done: make(chan struct{})}
	for range 3 {
		require.ErrorContains(t, n.session(ctx), "refused")
	}
	assert.Zero(t, ctx.below)
}
