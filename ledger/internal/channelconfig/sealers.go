package channelconfig

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// CheckSealers refuses a configuration under which orderers could not seal the next block, or make the configuration that
// mends it: peers would take no block after it. Orderer is the serialized identity of the one that would order it. Like
// CheckACLs it is for clients' updates alone.
func (b *Bundle) CheckSealers(config *commonpb.Config, orderer []byte) error {
	next, err := FromConfig(b.ChannelID, config)
	if err != nil {
		return err
	}
	if len(next.Orderer.Identities) > 0 {
		return b.checkQuorums(next)
	}
	id, err := next.MSP.DeserializeUndated(orderer)
	if err != nil {
		return fmt.Errorf("%w: the orderer that would order it: %w", ErrInvalid, err)
	}
	if !next.Policy(BlockValidation).Evaluate([]*identity.Identity{id}) {
		return fmt.Errorf("%w: %s: %s of %s, the orderer that would order it, does not satisfy it: no later block would be valid",
			ErrInvalid, BlockValidation, id.Cert.Subject.CommonName, id.MSPID)
	}
	return nil
}

// checkQuorums refuses it where a quorum of its consenters does not satisfy BlockValidation, or one of them the policy for
// who makes configurations. Where that is so already, other updates go on.
func (b *Bundle) checkQuorums(next *Bundle) error {
	if lacking := next.lacking(); lacking > b.lacking() {
		n := len(next.Orderer.Consenters)
		return fmt.Errorf("%w: %s: a policy that each %d of the %d consenters satisfy is accepted, and %d do not satisfy this one",
			ErrInvalid, BlockValidation, Quorum(n), n, Quorum(n)-1+lacking)
	}
	for i, c := range next.Orderer.Consenters {
		if own := next.Orderer.identity(i); !next.mayConfigure(own) && (b.mayConfigure(own) || !b.Orderer.names(own)) {
			return fmt.Errorf("%w: %s: a policy that each consenter satisfies is accepted, and %s does not satisfy this one",
				ErrInvalid, ordererWriters, ConsenterAddress(c))
		}
	}
	return nil
}

func (b *Bundle) mayConfigure(serialized []byte) bool {
	id, err := b.MSP.DeserializeUndated(serialized)
	return err == nil && b.isOrderer(id)
}

// lacking is by how many signatures a quorum of the consenters may fall short of BlockValidation; 0: each quorum will do.
func (b *Bundle) lacking() int {
	var ids []*identity.Identity
	for i := range b.Orderer.Consenters {
		if id, err := b.MSP.DeserializeUndated(b.Orderer.identity(i)); err == nil {
			ids = append(ids, id)
		}
	}
	n := len(b.Orderer.Consenters)
	useless := n - len(ids) // nobody counts their signatures
	return max(0, useless+mostWithout(b.Policy(BlockValidation), ids)-(Quorum(n)-1))
}

// mostWithout is how many may sign together and yet not satisfy a policy. It adds one after the other, from each of them on
// in turn. That finds the most where a policy counts signers or organisations; one that is nested otherwise may have more.
func mostWithout(p policy.Evaluator, ids []*identity.Identity) (most int) {
	for first := range ids {
		var signed []*identity.Identity
		for i := range ids {
			if more := append(signed[:len(signed):len(signed)], ids[(first+i)%len(ids)]); !p.Evaluate(more) {
				signed = more
			}
		}
		most = max(most, len(signed))
	}
	return most
}
