package orderer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

const (
	// A client may send ahead of the answers, but not without end.
	broadcastWindow = 512
	// orderingTimeout is for transactions that were lost without a trace; a change of leader is noticed earlier.
	orderingTimeout = 10 * time.Second
)

var errTimeout = errors.New("not ordered in time: the transaction may or may not get ordered")

// Broadcast answers each envelope, in order, when it is ordered: SUCCESS means that
// a majority of the orderers has it on disk.
func (n *Node) Broadcast(stream ordererpb.AtomicBroadcast_BroadcastServer) error {
	answers := make(chan *waiter, broadcastWindow)
	group, ctx := errgroup.WithContext(stream.Context())
	group.Go(func() error {
		defer close(answers)
		known := false
		for {
			env, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			w := n.accept(env)
			if !known && w.channel != nil { // a writer has signed it
				known = true
				n.strangers.Knows(ctx)
			}
			select {
			case answers <- w:
			case <-ctx.Done():
				w.giveUp()
				return ctx.Err()
			}
		}
	})
	group.Go(func() error {
		for w := range answers {
			err := w.wait(ctx)
			if ctx.Err() != nil {
				w.giveUp()
				return ctx.Err()
			}
			response := &ordererpb.BroadcastResponse{Status: statusOf(err)}
			n.metrics.answered(w, response.Status, time.Now())
			switch {
			case err != nil:
				response.Info = told(err)
			case w.channel != nil:
				response.Info = w.channel.leaderHint()
			}
			if err := stream.Send(response); err != nil {
				return err
			}
		}
		return nil
	})
	err := group.Wait()
	for w := range answers { // the client is gone
		w.giveUp()
	}
	return err
}

// accept checks an envelope, once, and hands it on.
func (n *Node) accept(env *commonpb.Envelope) *waiter {
	arrived := time.Now()
	msg, err := protoutil.OpenEnvelope(env)
	if err != nil {
		return refused(err)
	}
	ch, err := n.channel(msg.Channel.ChannelId)
	if err != nil {
		return refused(err)
	}
	raw, err := proto.Marshal(env)
	if err != nil {
		return refused(err)
	}
	bundle := ch.Bundle()
	if err := checkTransaction(bundle, raw, msg); err != nil {
		return refused(err)
	}
	if commonpb.HeaderType(msg.Channel.Type) == commonpb.HeaderType_CONFIG_UPDATE {
		if env, raw, err = ch.configTransaction(bundle, msg); err != nil {
			return refused(err)
		}
	}
	checked := time.Now()
	w := ch.submit(env, raw, bundle.Sequence)
	w.kind, w.arrived, w.checked = commonpb.HeaderType(msg.Channel.Type), arrived, checked
	return w
}

func refused(err error) *waiter {
	w := &waiter{result: make(chan error, 1)}
	w.result <- err
	return w
}

func (w *waiter) wait(ctx context.Context) error {
	select {
	case err := <-w.result: // the usual case needs no timer
		return err
	default:
	}
	// Its time began when it was handed on: a stream waits for one transaction after the other.
	timer := time.NewTimer(orderingTimeout - time.Since(w.checked))
	defer timer.Stop()
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		w.giveUp()
		return errTimeout
	}
}

func (w *waiter) giveUp() {
	if w.channel != nil {
		w.channel.waiting.forget(w)
	}
}

// longestName is how long a channel's name may be.
const longestName = 249

func (n *Node) channel(name string) (*channel, error) {
	ch, ok := n.channels[name]
	if !ok {
		return nil, fmt.Errorf("%w: %.*q", errNoChannel, longestName, name)
	}
	return ch, nil
}
