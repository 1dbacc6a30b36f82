package deliver

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// beginning is a channel that has block 0 alone.
type beginning struct{ *peertest.World }

func (beginning) ID() string                              { return peertest.Channel }
func (b beginning) Bundle() *channelconfig.Bundle         { return b.World.Bundle }
func (beginning) Height() uint64                          { return 1 }
func (b beginning) Block(uint64) (*commonpb.Block, error) { return b.Genesis, nil }
func (beginning) UntilChanged() <-chan struct{}           { return nil }

// asking is a stream whose client sends these requests and goes; without any it is silent.
type asking struct {
	ctx      context.Context
	requests []*commonpb.Envelope
	sent     []*peerpb.DeliverResponse
	sending  func() // if there is one, Send calls it
}

func (a *asking) Context() context.Context { return a.ctx }

func (a *asking) Send(response *peerpb.DeliverResponse) error {
	if a.sending != nil {
		a.sending()
	}
	a.sent = append(a.sent, response)
	return nil
}

func (a *asking) Recv() (*commonpb.Envelope, error) {
	switch {
	case a.requests == nil:
		<-a.ctx.Done()
		return nil, a.ctx.Err()
	case len(a.requests) == 0:
		return nil, io.EOF
	}
	env := a.requests[0]
	a.requests = a.requests[1:]
	return env, nil
}

// TestWhoHasNotAskedTakesNoPlace from readers: it is nobody yet.
func TestWhoHasNotAskedTakesNoPlace(t *testing.T) {
	w := peertest.New(t, peertest.Options{})
	s := New(func(string) Chain { return beginning{w} }, nil)
	zero := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Oldest{}}
	seek, err := proto.Marshal(&ordererpb.SeekInfo{Start: zero, Stop: zero})
	require.NoError(t, err)
	good, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, peertest.Channel, w.Signer("Org1MSP", "client"), nil, seek)
	require.NoError(t, err)

	s.streams.Store(maxStreams)
	refused := &asking{ctx: t.Context(), requests: []*commonpb.Envelope{{}}}
	require.NoError(t, s.serve(refused, blocks))
	require.Len(t, refused.sent, 1)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, refused.sent[0].GetStatus())
	err = s.serve(&asking{ctx: t.Context(), requests: []*commonpb.Envelope{good}}, blocks)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))

	s.streams.Store(maxStreams - 1)
	twice := &asking{ctx: t.Context(), requests: []*commonpb.Envelope{good, good}}
	require.NoError(t, s.serve(twice, blocks), "a stream counts once")
	assert.Len(t, twice.sent, 4, "a block and a status each")
	assert.EqualValues(t, maxStreams-1, s.streams.Load())
	assert.Zero(t, s.unasked.Load())

	reading := &asking{ctx: t.Context(), requests: []*commonpb.Envelope{good}, sending: func() {
		assert.Zero(t, s.unasked.Load(), "a reader leaves the place of one that has not asked")
	}}
	require.NoError(t, s.serve(reading, blocks))
}

// TestStreamsThatHaveNotAskedAreBoundedToo, apart from readers, so that they cannot take all of a peer's memory.
func TestStreamsThatHaveNotAskedAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, nil)
		ended := make(chan error, maxStreams)
		for range maxStreams {
			go func() { ended <- s.serve(&asking{ctx: t.Context()}, blocks) }()
		}
		synctest.Wait()
		assert.Empty(t, ended)
		assert.EqualValues(t, maxStreams, s.unasked.Load())
		err := s.serve(&asking{ctx: t.Context()}, blocks)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		for range maxStreams {
			assert.Equal(t, codes.DeadlineExceeded, status.Code(<-ended))
		}
		assert.Zero(t, s.unasked.Load())
	})
}

func TestWhoDoesNotAskIsHungUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := New(nil, nil), time.Now()
		err := s.serve(&asking{ctx: t.Context()}, blocks)
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Equal(t, firstRequest, time.Since(began))
	})
}
