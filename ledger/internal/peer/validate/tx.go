// Package validate is the first stage of a peer's pipeline: it takes an ordered
// transaction apart and checks all that does not depend on the state (form,
// signatures, endorsement policy). Its verdict is a pure function of the bytes and
// the channel's configuration, so that every peer, on every day, decides alike.
package validate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Code is Fabric's verdict on a transaction.
type Code = peerpb.TxValidationCode

// TxKey is a transaction id in binary form.
type TxKey [sha256.Size]byte

// ParseTxID reads an id as clients write it: 64 hexadecimal digits.
func ParseTxID(id string) (key TxKey, ok bool) {
	if hex.DecodedLen(len(id)) != len(key) {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(id))
	return key, err == nil
}

// Tx is an ordered transaction, taken apart once for all stages.
type Tx struct {
	Raw     []byte
	Message *protoutil.Message // nil when the envelope does not parse
	Type    commonpb.HeaderType
	// WellFormed is whether a block may have it (protoutil.SplitEnvelope). A block that has one which is not is none.
	WellFormed bool

	ID        string
	Key       TxKey
	Chaincode string                 // that was invoked
	Version   string                 // of the chaincode, as endorsed
	Event     *peerpb.ChaincodeEvent // nil when there is none
	Set       *rwset.Set             // nil unless it is a well-formed endorser transaction
	// Refused is whether its creator has signed it and is not admitted: the verdict is the one that who sent it waits for. It
	// is not so for a copy under another signature.
	Refused bool

	endorsed     *peerpb.ChaincodeEndorsedAction
	proposalHash []byte // as the endorsers saw it
	input        []byte // the chaincode proposal payload without the transient map
}

// ClaimsID reports whether a transaction with this verdict has taken its id: it was
// really made by its creator, so a later one of the same id is a duplicate. Anybody
// can copy an id; such a copy must not block the original.
func ClaimsID(code Code) bool {
	switch code {
	case peerpb.TxValidationCode_NIL_ENVELOPE, peerpb.TxValidationCode_BAD_PAYLOAD, peerpb.TxValidationCode_BAD_COMMON_HEADER,
		peerpb.TxValidationCode_BAD_CHANNEL_HEADER, peerpb.TxValidationCode_TARGET_CHAIN_NOT_FOUND,
		peerpb.TxValidationCode_UNKNOWN_TX_TYPE, peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE,
		peerpb.TxValidationCode_BAD_PROPOSAL_TXID, peerpb.TxValidationCode_DUPLICATE_TXID:
		return false
	}
	return true
}

// Parse takes a transaction of a channel apart. The code is VALID or says what is
// wrong with its form; the Tx holds what could be read in either case.
func Parse(raw []byte, channelID string) (*Tx, Code) {
	tx := &Tx{Raw: raw}
	msg, err := tx.open()
	if err != nil {
		return tx, whyMalformed(raw)
	}
	tx.Message = msg
	tx.Type, tx.ID = commonpb.HeaderType(msg.Channel.Type), msg.Channel.TxId
	if !msg.HasNonce() {
		return tx, peerpb.TxValidationCode_BAD_COMMON_HEADER
	}
	if msg.Channel.ChannelId != channelID {
		return tx, peerpb.TxValidationCode_TARGET_CHAIN_NOT_FOUND
	}
	switch tx.Type {
	case commonpb.HeaderType_CONFIG:
		return tx, peerpb.TxValidationCode_VALID
	case commonpb.HeaderType_ENDORSER_TRANSACTION:
	default:
		return tx, peerpb.TxValidationCode_UNKNOWN_TX_TYPE
	}
	if msg.Channel.Epoch != 0 || msg.Channel.Timestamp == nil {
		return tx, peerpb.TxValidationCode_BAD_COMMON_HEADER
	}
	key, ok := ParseTxID(tx.ID)
	if !ok || !msg.HasOwnTxID() {
		return tx, peerpb.TxValidationCode_BAD_PROPOSAL_TXID
	}
	tx.Key = key
	return tx, tx.parseActions()
}

// open takes the envelope apart. One that is not well-formed, as that of block 0, which nobody has signed, the library
// reads.
func (tx *Tx) open() (*protoutil.Message, error) {
	payload, signature, err := protoutil.SplitEnvelope(tx.Raw)
	if err != nil {
		return protoutil.ParseEnvelope(tx.Raw)
	}
	tx.WellFormed = true
	return protoutil.OpenEnvelope(&commonpb.Envelope{Payload: payload, Signature: signature})
}

// whyMalformed finds the code for an envelope that protoutil refused.
func whyMalformed(raw []byte) Code {
	var env commonpb.Envelope
	if len(raw) == 0 {
		return peerpb.TxValidationCode_NIL_ENVELOPE
	}
	if protoutil.Unmarshal(raw, &env) != nil || len(env.Payload) == 0 || protoutil.Unmarshal(env.Payload, &commonpb.Payload{}) != nil {
		return peerpb.TxValidationCode_BAD_PAYLOAD
	}
	return peerpb.TxValidationCode_BAD_COMMON_HEADER
}

// parseActions reads what was proposed and what was endorsed.
func (tx *Tx) parseActions() Code {
	var body peerpb.Transaction
	var payload peerpb.ChaincodeActionPayload
	var response peerpb.ProposalResponsePayload
	var action peerpb.ChaincodeAction
	if protoutil.Unmarshal(tx.Message.Data, &body) != nil {
		return peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	if len(body.Actions) != 1 {
		return peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	if !tx.signedAs(body.Actions[0].Header) ||
		protoutil.Unmarshal(body.Actions[0].Payload, &payload) != nil || payload.Action == nil {
		return peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	tx.endorsed = payload.Action
	if protoutil.Unmarshal(payload.Action.ProposalResponsePayload, &response) != nil ||
		protoutil.Unmarshal(response.Extension, &action) != nil {
		return peerpb.TxValidationCode_BAD_RESPONSE_PAYLOAD
	}
	var header peerpb.ChaincodeHeaderExtension
	if protoutil.Unmarshal(tx.Message.Channel.Extension, &header) != nil || header.GetChaincodeId().GetName() == "" {
		return peerpb.TxValidationCode_BAD_HEADER_EXTENSION
	}
	tx.Chaincode, tx.Version = header.ChaincodeId.Name, action.GetChaincodeId().GetVersion()
	if action.GetChaincodeId().GetName() != tx.Chaincode {
		return peerpb.TxValidationCode_INVALID_CHAINCODE
	}
	tx.proposalHash = response.ProposalHash
	tx.input = payload.ChaincodeProposalPayload
	if code := tx.parseEvent(action.Events); code != peerpb.TxValidationCode_VALID {
		return code
	}
	set, err := rwset.Decode(action.Results)
	if err != nil {
		return peerpb.TxValidationCode_BAD_RWSET
	}
	tx.Set = set
	return peerpb.TxValidationCode_VALID
}

// signedAs reports whether that is the transaction's own signature header.
func (tx *Tx) signedAs(header []byte) bool {
	if _, own, ok := rawHeaders(tx.Message.Envelope.Payload); ok && bytes.Equal(own, header) {
		return true
	}
	var other commonpb.SignatureHeader
	return protoutil.Unmarshal(header, &other) == nil && proto.Equal(&other, tx.Message.Signature)
}

func (tx *Tx) parseEvent(raw []byte) Code {
	if len(raw) == 0 {
		return peerpb.TxValidationCode_VALID
	}
	var event peerpb.ChaincodeEvent
	if protoutil.Unmarshal(raw, &event) != nil || event.ChaincodeId != tx.Chaincode || event.TxId != tx.ID {
		return peerpb.TxValidationCode_INVALID_OTHER_REASON
	}
	tx.Event = &event
	return peerpb.TxValidationCode_VALID
}
