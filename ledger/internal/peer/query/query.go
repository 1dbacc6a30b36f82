// Package query marks calls of an endorser whose answer a client takes as it is. Where some orderers may lie, such an answer
// comes from a state that enough orderers have vouched for; what is to be ordered may be simulated on a newer one, since its
// versions show when that was taken back.
package query

import (
	"context"

	"google.golang.org/grpc/metadata"
)

const header = "qioi-query"

type key struct{}

// Mark marks a call, of this process or to another peer.
func Mark(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(context.WithValue(ctx, key{}, true), header, "1")
}

// Is reports whether a call is marked.
func Is(ctx context.Context) bool {
	return ctx.Value(key{}) != nil || len(metadata.ValueFromIncomingContext(ctx, header)) > 0
}
