package deliver

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/serving"
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

	leave := func() {}
	for range serving.MostReaders {
		leave, err = s.readers.Enter("", "")
		require.NoError(t, err)
	}
	refused := &asking{ctx: t.Context(), requests: []*commonpb.Envelope{{}}}
	require.NoError(t, s.serve(refused, blocks))
	require.Len(t, refused.sent, 1)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, refused.sent[0].GetStatus())
	err = s.serve(&asking{ctx: t.Context(), requests: []*commonpb.Envelope{good}}, blocks)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "too many requests for /protos.Deliver, exceeding concurrency limit (2500)")

	leave()
	twice := &asking{ctx: t.Context(), requests: []*commonpb.Envelope{good, good}}
	require.NoError(t, s.serve(twice, blocks), "a stream counts once")
	assert.Len(t, twice.sent, 4, "a block and a status each")
	leave, err = s.readers.Enter("", "")
	require.NoError(t, err, "it has left")
	leave()
	assert.Empty(t, s.unasked.of)

	reading := &asking{ctx: t.Context(), requests: []*commonpb.Envelope{good}, sending: func() {
		assert.Empty(t, s.unasked.of, "a reader leaves the place of one that has not asked")
	}}
	require.NoError(t, s.serve(reading, blocks))
}

// from is the context of a stream over a client's connection from this port.
func from(t *testing.T, port int) context.Context {
	return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port}})
}

// TestStreamsThatHaveNotAskedAreBoundedToo, for each connection, so that who opens them keeps nobody else out.
func TestStreamsThatHaveNotAskedAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := New(nil, nil), time.Now()
		idle := make(chan error, maxUnasked)
		for range maxUnasked {
			go func() { idle <- s.serve(&asking{ctx: from(t, 1)}, blocks) }()
		}
		synctest.Wait()
		err := s.serve(&asking{ctx: from(t, 1)}, blocks)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		assert.ErrorContains(t, err, "streams of this connection that have asked for nothing yet")
		assert.Equal(t, firstOfMany, time.Since(began))
		assert.Empty(t, idle)

		asked := &asking{ctx: from(t, 1), requests: []*commonpb.Envelope{{}}}
		require.NoError(t, s.serve(asked, blocks), "who opens many streams, and asks, is answered")
		assert.Len(t, asked.sent, 1)
		began = time.Now()
		assert.Equal(t, codes.DeadlineExceeded, status.Code(s.serve(&asking{ctx: from(t, 2)}, blocks)))
		assert.Equal(t, firstRequest, time.Since(began), "another connection has its own")
		for range maxUnasked {
			assert.Equal(t, codes.DeadlineExceeded, status.Code(<-idle))
		}
		assert.Empty(t, s.unasked.of)
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
