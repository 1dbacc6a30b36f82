// Package deliver is Fabric's peer event service (protos.Deliver): whole blocks with
// their validation flags, or filtered ones that tell ids, verdicts and the names of events.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var log = ops.Logger("peer.deliver")

// readers is the policy that Fabric asks for block events (event/Block).
const readers = channelconfig.ApplicationReaders

const (
	// firstRequest is how long a client may take to ask. Until it has, it is nobody.
	firstRequest = 10 * time.Second
	// maxUnasked is how many streams of one connection may take as long; firstOfMany is how long the others may take. Who
	// opens many at once and asks needs less.
	maxUnasked  = 100
	firstOfMany = time.Second
)

var errUnasked = status.Errorf(codes.ResourceExhausted, "no request within %s, beside %d streams of this connection that have asked for nothing yet", firstOfMany, maxUnasked)

// Chain is what the service needs of a channel.
type Chain interface {
	ID() string
	Bundle() *channelconfig.Bundle
	Height() uint64
	Block(number uint64) (*commonpb.Block, error)
	UntilChanged() <-chan struct{}
}

// Service implements protos.Deliver.
type Service struct {
	peerpb.UnimplementedDeliverServer
	channel func(id string) Chain // nil when the peer has not joined
	counts  *serving.Delivered
	readers serving.Readers
	unasked unasked
}

// New makes the service; counts may be nil.
func New(channel func(id string) Chain, counts *serving.Delivered) *Service {
	return &Service{channel: channel, counts: counts, unasked: unasked{of: map[string]int{}}}
}

type stream interface {
	Context() context.Context
	Send(*peerpb.DeliverResponse) error
	Recv() (*commonpb.Envelope, error)
}

// shape turns a block into what a kind of call sends.
type shape struct {
	name string // as Fabric's metrics call it
	form func(channelID string, block *commonpb.Block) *peerpb.DeliverResponse
}

var (
	blocks        = shape{"block", whole}
	filteredBlock = shape{"filtered_block", filtered}
	privateData   = shape{"block_and_pvtdata", withPrivateData}
)

// Deliver sends whole blocks.
func (s *Service) Deliver(st peerpb.Deliver_DeliverServer) error { return s.serve(st, blocks) }

// DeliverFiltered sends filtered blocks.
func (s *Service) DeliverFiltered(st peerpb.Deliver_DeliverFilteredServer) error {
	return s.serve(st, filteredBlock)
}

// DeliverWithPrivateData sends whole blocks; there is no private data.
func (s *Service) DeliverWithPrivateData(st peerpb.Deliver_DeliverWithPrivateDataServer) error {
	return s.serve(st, privateData)
}

// serve answers one request after the other, each with blocks and then a status. A stream counts as a reader's from its first
// good request on, and apart before: one that has not asked keeps no reader's place.
func (s *Service) serve(st stream, as shape) error {
	defer s.counts.Stream()()
	others, hasAsked := s.unasked.add(st.Context())
	defer hasAsked()
	env, err := first(st, others)
	counted := false
	for ; ; env, err = st.Recv() {
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r, code, err := s.open(env)
		if err == nil && !counted {
			counted = true
			hasAsked()
			leave, err := s.readers.Enter("/protos.Deliver", "")
			if err != nil {
				return err
			}
			defer leave()
		}
		if err == nil {
			code, err = s.answer(st, r, as)
		}
		if st.Context().Err() != nil {
			return st.Context().Err()
		}
		if err != nil {
			level := ops.Debug
			if code == commonpb.Status_INTERNAL_SERVER_ERROR { // a damaged file, or a disk that fails
				level = ops.Error
			}
			log.Log(0, level, "a request ended with %s: %s", code, err)
		}
		if err := st.Send(&peerpb.DeliverResponse{Type: &peerpb.DeliverResponse_Status{Status: code}}); err != nil {
			return err
		}
		if code != commonpb.Status_SUCCESS {
			return nil
		}
	}
}

// unasked counts streams before their first good request by their connection: one client's keep no other's out.
type unasked struct {
	mu sync.Mutex
	of map[string]int // of has a connection while it has such streams, by the client's address and port
}

// add counts a stream until it has asked, and says how many others there are.
func (u *unasked) add(ctx context.Context) (others int, hasAsked func()) {
	connection := ""
	if from, ok := peer.FromContext(ctx); ok {
		connection = from.Addr.String()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	others = u.of[connection]
	u.of[connection]++
	return others, sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.of[connection]--; u.of[connection] == 0 {
			delete(u.of, connection)
		}
	})
}

// first waits for a stream's first request, beside so many others of its connection that have not asked. Where none comes in
// time the stream ends, and what waits with it.
func first(st stream, others int) (*commonpb.Envelope, error) {
	wait, late := firstRequest, status.Errorf(codes.DeadlineExceeded, "no request within %s", firstRequest)
	if others >= maxUnasked {
		wait, late = firstOfMany, errUnasked
	}
	type received struct {
		env *commonpb.Envelope
		err error
	}
	asked := make(chan received, 1)
	go func() {
		env, err := st.Recv()
		asked <- received{env, err}
	}()
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case r := <-asked:
		return r.env, r.err
	case <-patience.C:
		return nil, late
	}
}

// request is one that is checked, as its sender is.
type request struct {
	channel Chain
	seek    *ordererpb.SeekInfo
	creator []byte
}

func (s *Service) answer(st stream, r *request, as shape) (code commonpb.Status, err error) {
	ch, seek := r.channel, r.seek
	sent, end := s.counts.Request(ch.ID(), as.name)
	defer func() { end(err == nil) }()
	from, last, err := protoutil.SeekRange(seek, ch.Height())
	if err != nil {
		return commonpb.Status_BAD_REQUEST, err
	}
	for number := from; ; number++ {
		block, code, err := next(st.Context(), ch, number, seek.Behavior)
		if err != nil {
			return code, err
		}
		if _, err := ch.Bundle().Admits(r.creator, readers); err != nil {
			return commonpb.Status_FORBIDDEN, err
		}
		// As in Fabric: who reads headers needs configurations to know who may sign the next ones.
		if seek.ContentType == ordererpb.SeekInfo_HEADER_WITH_SIG && !channelconfig.IsConfigBlock(block) {
			block = &commonpb.Block{Header: block.Header, Metadata: block.Metadata}
		}
		if err := st.Send(as.form(ch.ID(), block)); err != nil {
			return commonpb.Status_INTERNAL_SERVER_ERROR, err
		}
		sent()
		if number == last {
			return commonpb.Status_SUCCESS, nil
		}
	}
}

// open checks a request and its sender.
func (s *Service) open(env *commonpb.Envelope) (*request, commonpb.Status, error) {
	msg, err := protoutil.OpenEnvelope(env)
	if err != nil {
		return nil, commonpb.Status_BAD_REQUEST, err
	}
	if kind := commonpb.HeaderType(msg.Channel.Type); kind != commonpb.HeaderType_DELIVER_SEEK_INFO {
		return nil, commonpb.Status_BAD_REQUEST, fmt.Errorf("header type %s: DELIVER_SEEK_INFO is accepted", kind)
	}
	if err := msg.CheckTime(); err != nil {
		return nil, commonpb.Status_BAD_REQUEST, err
	}
	ch := s.channel(msg.Channel.ChannelId)
	if ch == nil {
		return nil, commonpb.Status_NOT_FOUND, fmt.Errorf("channel %q is not joined", msg.Channel.ChannelId)
	}
	creator := msg.Signature.Creator
	caller, err := ch.Bundle().Admits(creator, readers)
	if err == nil {
		err = caller.Verify(env.Payload, env.Signature)
	}
	if err != nil {
		return nil, commonpb.Status_FORBIDDEN, err
	}
	seek := &ordererpb.SeekInfo{}
	if err := protoutil.Unmarshal(msg.Data, seek); err != nil {
		return nil, commonpb.Status_BAD_REQUEST, err
	}
	return &request{ch, seek, creator}, commonpb.Status_SUCCESS, nil
}

// next waits for a block where the request says so.
func next(ctx context.Context, ch Chain, number uint64, behavior ordererpb.SeekInfo_SeekBehavior) (*commonpb.Block, commonpb.Status, error) {
	for {
		changed := ch.UntilChanged()
		if number < ch.Height() {
			block, err := ch.Block(number)
			return block, commonpb.Status_INTERNAL_SERVER_ERROR, err
		}
		if behavior == ordererpb.SeekInfo_FAIL_IF_NOT_READY {
			return nil, commonpb.Status_NOT_FOUND, fmt.Errorf("block %d: %w", number, chain.ErrNotFound)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, commonpb.Status_SERVICE_UNAVAILABLE, ctx.Err()
		}
	}
}
