package channelconfig

import (
	"slices"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Trust is how far the word of a single orderer counts on a channel. It is said here alone: whoever believes an orderer
// asks for it. Where orderers may crash, but do not lie, one speaks for all. A kind of consenter that does not say so of its
// orderers gets nothing of that: it is taken to be there because some of them may lie.
type Trust struct {
	// Seals is how many orderers must have signed a block, besides what BlockValidation asks for.
	Seals int
	// Words is how many orderers must say the same running hash before a peer tells its clients of a transaction as
	// committed ahead of the seal of its block: 1: the word of the one that has relayed it will do, and there are no
	// hashes; 0: only the seal will.
	Words int
	// Answers is how many orderers must tell a client that a transaction is ordered before it counts as that.
	Answers int
	// Forwarded says that an orderer takes on a transaction which another consenter says it has checked.
	Forwarded bool
	// Histories says that a client who hears the orderers' histories knows before they do that a transaction is ordered.
	Histories bool
}

// Trust is what the channel's consenter and mode allow.
func (o *Orderer) Trust() Trust { return trustOf(o.ConsensusType, o.Mode, len(o.Consenters)) }

func trustOf(consensusType string, mode Mode, consenters int) Trust {
	how := consensusTypes[consensusType]
	t := Trust{Seals: Quorum(consenters), Words: max(2, Liars(consenters)+1), Answers: Liars(consenters) + 1, Histories: how.histories}
	if how.honest {
		t = Trust{Seals: 1, Words: 1, Answers: 1, Forwarded: true}
	}
	if mode != Stream {
		t.Words = 0
	}
	return t
}

// Answers is Trust's, for those who have no configuration of the channel yet that they could believe.
func Answers(consensusType string, orderers int) int {
	return trustOf(consensusType, Block, orderers).Answers
}

// Hashes reports whether orderers say running hashes, and versions carry them.
func (t Trust) Hashes() bool { return t.Words > 1 }

// VerifySeal says why the orderers that have signed a block's header are not those who may, or not enough of them.
func (b *Bundle) VerifySeal(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) error {
	return protoutil.VerifyBlock(header, metadata, b.MSP, b.seals(), b.Orderer.Identities)
}

// seals is what the signers of a block must satisfy.
func (b *Bundle) seals() atLeast {
	a := atLeast{signers: b.Orderer.Trust().Seals, policy: b.Policy(BlockValidation), named: len(b.Orderer.Identities) > 0}
	for _, own := range b.Orderer.Identities {
		if id, err := b.MSP.DeserializeUndated(own); err == nil {
			a.of = append(a.of, id)
		}
	}
	return a
}

// atLeast is a policy that so many must satisfy together.
type atLeast struct {
	signers int
	policy  policy.Evaluator
	// of are those who count as one of so many, where named is set, and all do otherwise. The policy may admit members that
	// are no orderers: one consenter that lies could make up a quorum of them.
	of    []*identity.Identity
	named bool
}

// Evaluate implements policy.Evaluator. An identity that has signed twice counts once.
func (a atLeast) Evaluate(ids []*identity.Identity) bool {
	distinct := 0
	for i, id := range ids {
		if !slices.ContainsFunc(ids[:i], id.Same) && (!a.named || slices.ContainsFunc(a.of, id.Same)) {
			distinct++
		}
	}
	return distinct >= a.signers && a.policy.Evaluate(ids)
}
