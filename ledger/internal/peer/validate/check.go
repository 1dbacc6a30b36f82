package validate

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// maxEndorsements bounds the signatures that one transaction can make a peer check.
const maxEndorsements = 64

// Check parses a transaction and verifies everything that needs no state.
func Check(raw []byte, bundle *channelconfig.Bundle) (*Tx, Code) {
	tx, form := Parse(raw, bundle.ChannelID)
	if form != peerpb.TxValidationCode_VALID && !ClaimsID(form) {
		return tx, form
	}
	// Who made it comes first, also for a transaction of bad form: only then does it claim its id.
	at := tx.Message.Channel.GetTimestamp().AsTime()
	if !verifyCreator(tx.Message, bundle.MSP, at) {
		tx.FindRefused()
		return tx, peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE
	}
	if form != peerpb.TxValidationCode_VALID || tx.Type == commonpb.HeaderType_CONFIG {
		return tx, form
	}
	if !tx.coversProposal() {
		return tx, peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	return tx, tx.checkEndorsements(bundle, at)
}

// FindRefused sets Refused of a transaction whose verdict is BAD_CREATOR_SIGNATURE.
func (tx *Tx) FindRefused() {
	m := tx.Message
	tx.Refused = m != nil && tx.Type == commonpb.HeaderType_ENDORSER_TRANSACTION && identity.SignedBy(m.Signature.Creator, m.Envelope.Payload, m.Envelope.Signature)
}

func verifyCreator(msg *protoutil.Message, mgr *identity.Manager, at time.Time) bool {
	creator, err := mgr.DeserializeAt(msg.Signature.Creator, at)
	if err != nil {
		return false
	}
	return creator.Verify(msg.Envelope.Payload, msg.Envelope.Signature) == nil
}

// coversProposal reports whether the endorsers signed this proposal: the same headers, the same input.
func (tx *Tx) coversProposal() bool {
	channel, signature, ok := rawHeaders(tx.Message.Envelope.Payload)
	if !ok {
		return false
	}
	return bytes.Equal(tx.proposalHash, ProposalHash(channel, signature, tx.input))
}

// ProposalHash binds an endorsement to the proposal: its headers as they were
// sent, and its payload without the transient map.
func ProposalHash(channelHeader, signatureHeader, input []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{channelHeader, signatureHeader, input} {
		_, _ = h.Write(part) // a hash never errs
	}
	return h.Sum(nil)
}

// rawHeaders finds the two headers of a payload as they were encoded by the sender.
func rawHeaders(payload []byte) (channel, signature []byte, ok bool) {
	header, ok := field(payload, 1)
	if !ok {
		return nil, nil, false
	}
	channel, ok = field(header, 1)
	if !ok {
		return nil, nil, false
	}
	signature, ok = field(header, 2)
	return channel, signature, ok
}

// field finds an embedded message; a message that has it twice is not taken, because
// protobuf would merge the two.
func field(message []byte, want protowire.Number) (found []byte, ok bool) {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		m := protowire.ConsumeFieldValue(num, typ, message[n:])
		if m < 0 {
			return nil, false
		}
		if num == want && typ == protowire.BytesType {
			if ok {
				return nil, false
			}
			found, _ = protowire.ConsumeBytes(message[n:])
			ok = true
		}
		message = message[n+m:]
	}
	return found, ok
}

// checkEndorsements asks the policy of the invoked chaincode and of every other
// namespace that is written.
func (tx *Tx) checkEndorsements(bundle *channelconfig.Bundle, at time.Time) Code {
	definition := bundle.Chaincodes[tx.Chaincode]
	if definition == nil {
		return peerpb.TxValidationCode_INVALID_CHAINCODE
	}
	endorsers := tx.endorsers(bundle.MSP, at)
	if !definition.Policy.Evaluate(endorsers) {
		return peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE
	}
	for i := range tx.Set.Namespaces {
		ns := &tx.Set.Namespaces[i]
		if ns.Writes == 0 || ns.Name == tx.Chaincode {
			continue
		}
		other := bundle.Chaincodes[ns.Name]
		if other == nil {
			return peerpb.TxValidationCode_ILLEGAL_WRITESET
		}
		if !other.Policy.Evaluate(endorsers) {
			return peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE
		}
	}
	return peerpb.TxValidationCode_VALID
}

// endorsers are those whose signature holds, each once. Like Fabric, it passes over bad ones.
func (tx *Tx) endorsers(mgr *identity.Manager, at time.Time) []*identity.Identity {
	if len(tx.endorsed.Endorsements) > maxEndorsements {
		return nil
	}
	// All sign the same, which may be of megabytes, each with its own identity behind it.
	signed := sha256.New().(hash.Cloner) // as all of the library's hashes are
	_, _ = signed.Write(tx.endorsed.ProposalResponsePayload)
	out := make([]*identity.Identity, 0, len(tx.endorsed.Endorsements))
next:
	for _, e := range tx.endorsed.Endorsements {
		id, err := mgr.DeserializeAt(e.GetEndorser(), at)
		if err != nil {
			continue
		}
		for _, other := range out {
			if other.Same(id) {
				continue next
			}
		}
		if id.VerifyDigest(digest(signed, e.Endorser), e.Signature) == nil {
			out = append(out, id)
		}
	}
	return out
}

// digest is that of what was hashed so far and of what follows it; begun stays as it is.
func digest(begun hash.Cloner, rest []byte) (out [sha256.Size]byte) {
	h, _ := begun.Clone() // SHA-256 errs at neither
	_, _ = h.Write(rest)
	h.Sum(out[:0])
	return out
}
