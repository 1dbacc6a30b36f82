package orderer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Why an envelope is refused; statusOf gives the answer on the wire.
var (
	errForbidden = errors.New("permission denied")
	errTooLarge  = errors.New("exceeds maximum allowed")
	errNoChannel = errors.New("channel does not exist")
)

// statusOf is the answer on the wire. FORBIDDEN is about who signs the envelope. As in Fabric, a configuration update whose
// signers do not satisfy the policies is a bad request.
func statusOf(err error) commonpb.Status {
	var leader *leaderRefused
	switch {
	case errors.As(err, &leader):
		return leader.status
	case err == nil:
		return commonpb.Status_SUCCESS
	case errors.Is(err, errForbidden):
		return commonpb.Status_FORBIDDEN
	case errors.Is(err, errNoChannel), errors.Is(err, chain.ErrPosition):
		return commonpb.Status_NOT_FOUND
	case errors.Is(err, errTooLarge), errors.Is(err, consensus.ErrTooLarge), errors.Is(err, protoutil.ErrMalformed), errors.Is(err, channelconfig.ErrInvalid):
		return commonpb.Status_BAD_REQUEST
	default:
		return commonpb.Status_SERVICE_UNAVAILABLE
	}
}

// refusalOf is a status that another orderer has refused with, or the one that says least: it ends up at clients and in the
// names of series.
func refusalOf(said commonpb.Status) commonpb.Status {
	switch said {
	case commonpb.Status_FORBIDDEN, commonpb.Status_NOT_FOUND, commonpb.Status_BAD_REQUEST:
		return said
	default:
		return commonpb.Status_SERVICE_UNAVAILABLE
	}
}

// mostTold is how many bytes of an error are told. Who is refused may have chosen its text, and others share the stream.
const mostTold = 1 << 10

// told is an error as it goes back to who is refused.
func told(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), mostTold)], "")
}

// checkSigned verifies that an envelope is signed by someone whom a policy of the channel names.
func checkSigned(b *channelconfig.Bundle, policyPath string, msg *protoutil.Message) error {
	id, err := b.Admits(msg.Signature.Creator, policyPath)
	return signedBy(id, err, msg)
}

// signedBy verifies the signature of whom the channel admits.
func signedBy(id *identity.Identity, err error, msg *protoutil.Message) error {
	if err != nil {
		return fmt.Errorf("%w: creator: %w", errForbidden, err)
	}
	if err := id.Verify(msg.Envelope.Payload, msg.Envelope.Signature); err != nil {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return nil
}

// envelopeBytes is the most that surrounds payload and signature: two tags, two lengths.
const envelopeBytes = 12

// checkSize is Fabric's check, with its text: what surrounds payload and signature does not count. Further fields of an
// envelope do count: they are ordered with it.
func checkSize(b *channelconfig.Bundle, env *commonpb.Envelope, raw []byte) error {
	size := max(len(env.Payload)+len(env.Signature), len(raw)-envelopeBytes)
	if limit := b.Orderer.AbsoluteMaxBytes; size > limit {
		return fmt.Errorf("message payload is %d bytes and %w %d bytes", size, errTooLarge, limit)
	}
	return nil
}

// checkTransaction is the door of the ordering service for one envelope, raw and parsed.
func checkTransaction(b *channelconfig.Bundle, raw []byte, msg *protoutil.Message) error {
	if err := checkForm(b, raw, msg); err != nil {
		return err
	}
	return checkSigned(b, channelconfig.ChannelWriters, msg)
}

// checkOrdered is for what an orderer's door has let in, maybe that of one that lies. Correct orderers have to answer alike
// whenever they are asked, so nothing is said about expired certificates: a liar could choose the transaction's time as well.
func checkOrdered(b *channelconfig.Bundle, raw []byte, msg *protoutil.Message) error {
	if err := checkForm(b, raw, msg); err != nil {
		return err
	}
	id, err := b.AdmitsUndated(msg.Signature.Creator, channelconfig.ChannelWriters)
	return signedBy(id, err, msg)
}

// checkAgain is checkOrdered for a transaction as the log has it.
func checkAgain(b *channelconfig.Bundle, tx []byte) error {
	msg, err := protoutil.ParseEnvelope(tx)
	if err != nil {
		return err
	}
	return checkOrdered(b, tx, msg)
}

func checkForm(b *channelconfig.Bundle, raw []byte, msg *protoutil.Message) error {
	if err := checkSize(b, msg.Envelope, raw); err != nil {
		return err
	}
	if !msg.HasNonce() {
		return fmt.Errorf("%w: a transaction without nonce", protoutil.ErrMalformed)
	}
	kind := protoutil.HeaderType(raw)
	if kind != msg.Channel.Type {
		return fmt.Errorf("%w: envelope with fields twice or out of order", protoutil.ErrMalformed)
	}
	switch commonpb.HeaderType(kind) {
	case commonpb.HeaderType_ENDORSER_TRANSACTION, commonpb.HeaderType_MESSAGE, commonpb.HeaderType_CONFIG_UPDATE:
	default:
		return fmt.Errorf("%w: header type %d, ENDORSER_TRANSACTION is accepted", protoutil.ErrMalformed, kind)
	}
	return nil
}

// checkForwarded is the door for what another orderer has let in: under another configuration, or not to be believed.
func checkForwarded(b *channelconfig.Bundle, raw []byte, env *commonpb.Envelope) error {
	msg, err := protoutil.OpenEnvelope(env)
	if err != nil {
		return err
	}
	if channelconfig.IsConfig(msg.Channel) {
		_, err := b.Next(msg)
		return err
	}
	return checkTransaction(b, raw, msg)
}
