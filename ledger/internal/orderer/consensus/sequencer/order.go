package sequencer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

const (
	// requestBytes is about how much is sent in one request.
	requestBytes = 1 << 20
	// unanswered is how many requests may wait for their answers.
	unanswered = 256
	// unansweredBytes is how much is in them, or one transaction that is larger: all of it is kept until it is answered.
	unansweredBytes = 64 << 20
)

// order hands what comes in to the sequencer, all that waits in one request, until the connection ends.
func (n *Node) order(ctx context.Context) error {
	stream, err := n.sequencer.Order(ctx)
	if err != nil {
		return away{err}
	}
	sent := make(chan []consensus.Proposal, unanswered)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(sent)
		for {
			select {
			case <-ctx.Done():
				return away{ctx.Err()}
			case p := <-n.intake.C():
				n.intake.Taken(p)
				batch, request := n.gather(p)
				n.asked.Put(len(batch))
				if n.askedBytes.Acquire(ctx, weight(batch)) != nil {
					n.tellOf(batch, ErrAway)
					return away{ctx.Err()}
				}
				select {
				case sent <- batch: // before it is sent, so that each is settled
				case <-ctx.Done():
					n.settle(batch, ErrAway)
					return away{ctx.Err()}
				}
				if err := stream.Send(request); err != nil {
					return away{err}
				}
			}
		}
	})
	group.Go(func() error {
		err := n.answer(stream, sent)
		return away{err}
	})
	err = group.Wait()
	for batch := range sent {
		n.settle(batch, errUnanswered)
	}
	return err
}

// gather is one request of what waits.
func (n *Node) gather(p consensus.Proposal) ([]consensus.Proposal, *sequencerpb.OrderRequest) {
	batch, request := []consensus.Proposal{p}, &sequencerpb.OrderRequest{Channel: n.channel, Blobs: [][]byte{p.Tx}}
	for size := len(p.Tx); size < requestBytes; {
		p, waits := n.intake.Next()
		if !waits {
			break
		}
		batch, request.Blobs = append(batch, p), append(request.Blobs, p.Tx)
		size += len(p.Tx)
	}
	return batch, request
}

// weight is what a request takes of unansweredBytes. One that is larger takes all of it.
func weight(batch []consensus.Proposal) int64 {
	size := 0
	for _, p := range batch {
		size += len(p.Tx)
	}
	return int64(min(size, unansweredBytes))
}

// answer settles what the sequencer has answered; it always errs.
func (n *Node) answer(stream sequencerpb.Sequencer_OrderClient, sent <-chan []consensus.Proposal) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		n.settle(<-sent, nil)
	}
}

// settle tells of a request, and makes room for others.
func (n *Node) settle(batch []consensus.Proposal, err error) {
	n.askedBytes.Release(weight(batch))
	n.tellOf(batch, err)
}

func (n *Node) tellOf(batch []consensus.Proposal, err error) {
	n.asked.Begin(len(batch))
	for _, p := range batch {
		p.Settle(err)
	}
}
