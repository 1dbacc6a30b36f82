// Package probe notices a node that has stopped running although its connections
// stand: frozen, swapped out, or cut off by a network that drops silently. Its
// kernel goes on acknowledging what is sent to it, and gRPC's own keepalive asks every
// 10 s at most. A node that is slow but runs answers a probe.
package probe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// After Interval of silence the node is asked, and has Timeout to answer: a frozen node
// is noticed within 3 s.
const (
	Interval = 750 * time.Millisecond
	Timeout  = 1500 * time.Millisecond
)

// ErrSilent says that a node does not answer although its connection stands.
var ErrSilent = errors.New("the node does not answer: it is frozen or cut off")

// Watch watches one stream. The zero value is ready.
type Watch struct {
	heard atomic.Uint64
}

// Heard notes that the node has sent something.
func (w *Watch) Heard() { w.heard.Add(1) }

// Run returns ErrSilent when the node is silent although something is expected of it,
// and nil when ctx ends.
func (w *Watch) Run(ctx context.Context, conn grpc.ClientConnInterface, expected func() bool) error {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for seen := w.heard.Load(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := w.heard.Load()
		if now != seen || !expected() {
			seen = now
			continue
		}
		if !answers(ctx, conn) && ctx.Err() == nil && w.heard.Load() == seen {
			return ErrSilent
		}
	}
}

// answers reports whether the node answers at all, be it that it does not know the
// call. The stream itself notices a broken connection.
func answers(ctx context.Context, conn grpc.ClientConnInterface) bool {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return status.Code(err) != codes.DeadlineExceeded
}
