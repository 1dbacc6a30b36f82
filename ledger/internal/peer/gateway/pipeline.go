package gateway

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/internal/probe"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// maxUnanswered bounds what one orderer has not answered yet. It is twice an orderer's own window.
const maxUnanswered = 1024

var (
	errBacklog      = errors.New(protoutil.OrdererBacklog)
	errStreamClosed = errors.New("the orderer closed the stream")
	errUnasked      = errors.New("the orderer answered what was not asked")
	errSilent       = errors.New("the orderer did not answer in time")
)

type broadcastStream = grpc.BidiStreamingClient[commonpb.Envelope, ordererpb.BroadcastResponse]

// answered is what became of one envelope: the orderer's word, or none.
type answered struct {
	response *ordererpb.BroadcastResponse
	err      error
}

// pipeline is one open Broadcast stream. An orderer answers in the order of asking, so
// the oldest waiting envelope is whose answer comes next.
type pipeline struct {
	stream broadcastStream
	cancel context.CancelFunc
	watch  probe.Watch

	mu      sync.Mutex
	waiting []chan answered
	err     error
}

// send adds an envelope; only one caller at a time.
func (p *pipeline) send(env *commonpb.Envelope) (<-chan answered, error) {
	answer := make(chan answered, 1)
	p.mu.Lock()
	switch {
	case p.err != nil:
		p.mu.Unlock()
		return nil, p.err
	case len(p.waiting) >= maxUnanswered:
		p.mu.Unlock()
		return nil, errBacklog
	}
	p.waiting = append(p.waiting, answer)
	p.mu.Unlock()
	// A stream that has failed says why to receive, which tells all waiters.
	if err := p.stream.Send(env); err != nil && !errors.Is(err, io.EOF) {
		p.fail(err)
	}
	return answer, nil
}

// receive hands out the answers until the stream ends.
func (p *pipeline) receive() {
	for {
		response, err := p.stream.Recv()
		p.watch.Heard()
		if errors.Is(err, io.EOF) {
			err = errStreamClosed
		}
		if err != nil {
			p.fail(err)
			return
		}
		answer := p.oldest()
		if answer == nil {
			p.fail(errUnasked)
			return
		}
		answer <- answered{response: response}
	}
}

// attend fails the stream when the orderer no longer runs while answers are due.
func (p *pipeline) attend(ctx context.Context, conn grpc.ClientConnInterface) {
	if err := p.watch.Run(ctx, conn, p.expects); err != nil {
		p.fail(err)
	}
}

func (p *pipeline) expects() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 0
}

func (p *pipeline) oldest() chan answered {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return nil
	}
	first := p.waiting[0]
	p.waiting = p.waiting[1:]
	return first
}

// fail ends the stream. What was not answered may or may not be ordered.
func (p *pipeline) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	for _, answer := range p.waiting {
		answer <- answered{err: p.err}
	}
	p.waiting = nil
	p.cancel()
}

func (p *pipeline) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}
