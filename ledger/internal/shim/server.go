package shim

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	// maxMessageBytes is Fabric's own limit for the chaincode stream.
	maxMessageBytes = 100 << 20
	// A fixed window, wide enough for many transactions at once, spares the pings
	// with which gRPC otherwise estimates one.
	windowBytes = 4 << 20
)

// Server is a chaincode as a service. The stream is plaintext, as Fabric has it
// by default: chaincode and peer belong to one operator and one host.
type Server struct {
	peerpb.UnimplementedChaincodeServer
	id       string
	contract Contract
	grpc     *grpc.Server
}

// NewServer prepares contract to be served under a chaincode id (NAME:VERSION).
func NewServer(id string, contract Contract) *Server {
	s := &Server{id: id, contract: contract}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	peerpb.RegisterChaincodeServer(s.grpc, s)
	return s
}

// Connect is the stream of one peer.
func (s *Server) Connect(stream grpc.BidiStreamingServer[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]) error {
	log.Infof("%s: a peer is connected", s.id)
	err := serve(stream, s.id, s.contract)
	log.Infof("%s: a peer is gone (%v)", s.id, err)
	return err
}

// Serve answers peers on listener until ctx ends; then it returns nil.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	// A peer's stream never ends by itself, so there is nothing to be graceful about:
	// the peer answers its clients that the chaincode is gone.
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	if err := s.grpc.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("chaincode %s on %s: %w", s.id, listener.Addr(), err)
	}
	return nil
}
