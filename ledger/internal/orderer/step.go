package orderer

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

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
		}
	})
	if err := group.Wait(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (n *Node) step(certificate []byte, request *ordererpb.StepRequest, answers chan<- *ordererpb.SubmitResponse) error {
	if submit := request.GetSubmitRequest(); submit != nil {
		answer := func(response *ordererpb.SubmitResponse) {
			select {
			case answers <- response:
			default:
			}
		}
		ch, _, err := n.consenter(submit.Channel, certificate)
		if ch != nil && err == nil {
			ch.forwarded(submit, answer)
		}
		return err
	}
	message := request.GetConsensusRequest()
	ch, id, err := n.consenter(message.GetChannel(), certificate)
	if ch == nil || err != nil {
		return err
	}
	if part := ch.part(); part != nil {
		return part.Step(id, message.GetPayload())
	}
	return nil
}

// consenter finds which consenter of a channel a certificate belongs to. Without
// TLS every sender is taken for one. It returns no channel for a sender that is no consenter of this channel but is one of
// another: a message that it sent before it left must not end the stream that the other channel needs.
func (n *Node) consenter(name string, certificate []byte) (*channel, uint64, error) {
	ch, err := n.channel(name)
	if err != nil {
		return nil, 0, status.Error(codes.NotFound, err.Error())
	}
	if ch.kind.Log.External {
		return nil, 0, status.Errorf(codes.FailedPrecondition, "channel %q is not ordered by Raft", name)
	}
	if n.certificate == nil {
		return ch, 0, nil
	}
	if id := ch.group.Load().owner(certificate); id != 0 {
		return ch, id, nil
	}
	for _, other := range n.channels {
		if other.group.Load().owner(certificate) != 0 {
			return nil, 0, nil
		}
	}
	return nil, 0, status.Errorf(codes.PermissionDenied, "the certificate is not a consenter's of channel %q", name)
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
