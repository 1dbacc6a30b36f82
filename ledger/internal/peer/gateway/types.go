package gateway

import (
	"context"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Endorser simulates and endorses a proposal: this peer's own, called without gRPC.
//
// As in Fabric: a refused proposal (signature, channel, access) is an error; a
// simulation that the peer could not carry out is a response with status 500 and no
// payload; a response of the chaincode with status >= 400 has a payload but no
// endorsement; anything else is endorsed.
type Endorser interface {
	ProcessProposal(ctx context.Context, proposal *peerpb.SignedProposal) (*peerpb.ProposalResponse, error)
}

// Channels looks up the channels that this peer has joined.
type Channels interface {
	// Bundle is the configuration in force now; nil when the peer has not joined.
	Bundle(channelID string) *channelconfig.Bundle
}

// Commits tells the fate of transactions, asked for before or after their commit.
type Commits interface {
	// Status waits until the transaction is durably committed, as valid or not, or
	// until ctx ends; then it returns ctx's error.
	Status(ctx context.Context, channelID, txID string) (peerpb.TxValidationCode, uint64, error)
}

// Blocks reads a channel's durable blocks, complete with their validation flags
// (metadata TRANSACTIONS_FILTER, one byte a transaction).
type Blocks interface {
	// Height is the number of the next block.
	Height(channelID string) (uint64, error)
	// Block waits until the block is there, or until ctx ends; then it returns ctx's error.
	Block(ctx context.Context, channelID string, number uint64) (*commonpb.Block, error)
	// BlockOf is the block that a transaction was committed in, without waiting.
	BlockOf(channelID, txID string) (number uint64, committed bool, err error)
}
