package serving

import (
	"context"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
)

var callLog = ops.Logger("comm.grpc.server")

// LogCalls has a server log each call when it ends, with the fields of Fabric's line, where the node is to be
// like Fabric.
func LogCalls(cfg *nodeconfig.Config) []grpc.ServerOption {
	if !cfg.LikeFabric {
		return nil
	}
	return []grpc.ServerOption{grpc.UnaryInterceptor(logUnary), grpc.StreamInterceptor(logStream)}
}

func logUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	answer, err := handler(ctx, req)
	logCall(ctx, "unary", info.FullMethod, began, err)
	return answer, err
}

func logStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	began := time.Now()
	err := handler(srv, stream)
	logCall(stream.Context(), "streaming", info.FullMethod, began, err)
	return err
}

// logCall writes one line; method is "/service/method".
func logCall(ctx context.Context, kind, method string, began time.Time, err error) {
	address := "unknown"
	if from, ok := peer.FromContext(ctx); ok {
		address = from.Addr.String()
	}
	callLog.Infof("%s call completed grpc.service=%s grpc.method=%s grpc.peer_address=%s grpc.code=%s grpc.call_duration=%s",
		kind, path.Base(path.Dir(method)), path.Base(method), address, status.Code(err), time.Since(began))
}
