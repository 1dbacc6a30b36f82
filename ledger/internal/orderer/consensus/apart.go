package consensus

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Apart is embedded by a consenter of an external log: it knows of no other members, and none of them leads.
type Apart struct{}

// Step implements Consenter.
func (Apart) Step(uint64, []byte) error {
	return status.Error(codes.FailedPrecondition, "the orderers of this channel do not talk to each other")
}

// Unreachable implements Consenter.
func (Apart) Unreachable(uint64) {}

// Leader implements Consenter.
func (Apart) Leader() uint64 { return 0 }
