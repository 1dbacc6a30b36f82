package channelconfig

import (
	"slices"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Trust is how far the word of a single orderer counts on a channel. It is said here alone: whoever believes an orderer
// asks for it. Where orderers may crash, but do not lie, one speaks for all. A kind of consenter that is not named in
// trustOf gets nothing of that: it is taken to be there because some of its orderers may lie.
type Trust struct {
	// Seals is how many orderers must have signed a block, besides what BlockValidation asks for.
	Seals int
	// Unsealed says that a peer tells its clients of a transaction as committed when one orderer has relayed it, before
	// the seal of its block.
	Unsealed bool
	// Forwarded says that an orderer takes on a transaction which another consenter says it has checked.
	Forwarded bool
}

// Trust is what the channel's consenter and mode allow.
func (o *Orderer) Trust() Trust { return trustOf(o.ConsensusType, o.Mode, len(o.Consenters)) }

func trustOf(consensusType string, mode Mode, consenters int) Trust {
	switch consensusType {
	case Solo, Raft, Kafka, Sequencer: // they survive crashes, not lies
		return Trust{Seals: 1, Unsealed: mode == Stream, Forwarded: true}
	default:
		return Trust{Seals: Quorum(consenters)}
	}
}

// VerifySeal says why the orderers that have signed a block's header are not those who may, or not enough of them.
func (b *Bundle) VerifySeal(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) error {
	return protoutil.VerifyBlock(header, metadata, b.MSP, atLeast{b.Orderer.Trust().Seals, b.Policy(BlockValidation)}, b.Orderer.Identities)
}

// atLeast is a policy that so many must satisfy together.
type atLeast struct {
	signers int
	policy  policy.Evaluator
}

// Evaluate implements policy.Evaluator. An identity that has signed twice counts once.
func (a atLeast) Evaluate(ids []*identity.Identity) bool {
	distinct := 0
	for i, id := range ids {
		if !slices.ContainsFunc(ids[:i], id.Same) {
			distinct++
		}
	}
	return distinct >= a.signers && a.policy.Evaluate(ids)
}
