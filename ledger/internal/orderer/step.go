package orderer

import (
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// refusedWindow bounds the answers that wait for a slow orderer. Those beyond it
// are dropped, and their submitters time out.
const refusedWindow = 4096

// Step takes messages from another orderer, for all channels that it is a consenter of.
func (n *Node) Step(stream ordererpb.Cluster_StepServer) error {
	certificate := peerCertificate(stream.Context())
	if n.certificate != nil && certificate == nil {
		return status.Error(codes.Unauthenticated, "a TLS client certificate of a consenter is accepted")
	}
	known := n.hears(certificate)
	if known {
		n.strangers.Knows(stream.Context())
	}
	answers := make(chan *ordererpb.SubmitResponse, refusedWindow)
	group, ctx := errgroup.WithContext(stream.Context())
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case response := <-answers:
				if err := stream.Send(&ordererpb.StepResponse{Payload: &ordererpb.StepResponse_SubmitRes{SubmitRes: response}}); err != nil {
					return err
				}
			}
		}
	})
	group.Go(func() error {
		for {
			request, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return io.EOF // ends the group
			}
			if err != nil {
				return err
			}
			if err := n.step(certificate, request, answers); err != nil {
				return err
			}
			if !known { // it has become a consenter meanwhile
				known = true
				n.strangers.Knows(ctx)
			}
		}
	})
	if err := group.Wait(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (n *Node) step(certificate []byte, request *ordererpb.StepRequest, answers chan<- *ordererpb.SubmitResponse) error {
	answer := func(response *ordererpb.SubmitResponse) {
		select {
		case answers <- response:
		default:
		}
	}
	submit, message := request.GetSubmitRequest(), request.GetConsensusRequest()
	name := message.GetChannel()
	if submit != nil {
		name = submit.Channel
	}
	ch, id, err := n.consenter(name, certificate)
	switch {
	case err != nil:
		if !n.hears(certificate) {
			return err
		}
		if status.Code(err) != codes.PermissionDenied { // it may have sent this before it left
			n.unheard.tell(name, err)
			answerUnheard(submit, answer)
		}
		return nil
	case submit != nil:
		ch.forwarded(submit, answer)
		return nil
	}
	if part := ch.part(); part != nil {
		return part.Step(id, message.GetPayload())
	}
	return nil
}

// consenter finds which consenter of a channel a certificate belongs to. Without
// TLS every sender is taken for one.
func (n *Node) consenter(name string, certificate []byte) (*channel, uint64, error) {
	ch, err := n.channel(name)
	if err != nil {
		return nil, 0, status.Error(codes.NotFound, err.Error())
	}
	if ch.kind.Log.External {
		return nil, 0, status.Errorf(codes.FailedPrecondition, "the orderers of channel %q do not talk to each other", name)
	}
	if n.certificate == nil {
		return ch, 0, nil
	}
	if id := ch.group.Load().owner(certificate); id != 0 {
		return ch, id, nil
	}
	return nil, 0, status.Errorf(codes.PermissionDenied, "the certificate is not a consenter's of channel %q", name)
}

// hears reports whether the owner of a certificate is a consenter of any channel of this orderer. One stream carries the
// messages of all channels, so a message that is refused for one of them must not end it.
func (n *Node) hears(certificate []byte) bool {
	if n.certificate == nil {
		return true
	}
	for _, ch := range n.channels {
		if ch.group.Load().owner(certificate) != 0 {
			return true
		}
	}
	return false
}

// mostUnheard is how many channels are told of whose messages are dropped: those who send choose the names.
const mostUnheard = 64

// unheard is which channels have been told of whose messages are dropped.
type unheard struct {
	mu   sync.Mutex
	told map[string]bool
}

func (u *unheard) tell(name string, why error) {
	name = name[:min(len(name), longestName)]
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told[name] || len(u.told) == mostUnheard {
		return
	}
	if u.told == nil {
		u.told = map[string]bool{}
	}
	u.told[name] = true
	log.Warnf("[channel: %s] messages of other orderers are dropped: %s", name, status.Convert(why).Message())
}

// answerUnheard refuses a transaction of a channel that is not here. A name that no channel can have does not go back.
func answerUnheard(submit *ordererpb.SubmitRequest, answer func(*ordererpb.SubmitResponse)) {
	if submit == nil || len(submit.Channel) > longestName {
		return
	}
	if raw, err := proto.Marshal(submit.Payload); err == nil {
		answer(refusal(submit.Channel, raw, errNoChannel))
	}
}

func peerCertificate(ctx context.Context) []byte {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return info.State.PeerCertificates[0].Raw
}
