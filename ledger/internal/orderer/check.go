package orderer

import (
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Why an envelope is refused; statusOf gives the answer on the wire.
var (
	errForbidden = errors.New("permission denied")
	errTooLarge  = errors.New("message is too large")
	errNoChannel = errors.New("channel does not exist")
)

func statusOf(err error) commonpb.Status {
	switch {
	case err == nil:
		return commonpb.Status_SUCCESS
	case errors.Is(err, errForbidden), errors.Is(err, channelconfig.ErrUnauthorized):
		return commonpb.Status_FORBIDDEN
	case errors.Is(err, errTooLarge):
		return commonpb.Status_REQUEST_ENTITY_TOO_LARGE
	case errors.Is(err, errNoChannel), errors.Is(err, chain.ErrPosition):
		return commonpb.Status_NOT_FOUND
	case errors.Is(err, protoutil.ErrMalformed), errors.Is(err, channelconfig.ErrInvalid):
		return commonpb.Status_BAD_REQUEST
	default:
		return commonpb.Status_SERVICE_UNAVAILABLE
	}
}

// checkSigned verifies that an envelope is signed by someone whom a policy of the channel names.
func checkSigned(b *channelconfig.Bundle, policyPath string, msg *protoutil.Message) error {
	id, err := b.Admits(msg.Signature.Creator, policyPath)
	if err != nil {
		return fmt.Errorf("%w: creator: %w", errForbidden, err)
	}
	if err := id.Verify(msg.Envelope.Payload, msg.Envelope.Signature); err != nil {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return nil
}

// checkTransaction is the door of the ordering service for one envelope, raw and parsed.
func checkTransaction(b *channelconfig.Bundle, raw []byte, msg *protoutil.Message) error {
	if len(raw) > b.Orderer.AbsoluteMaxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d are accepted", errTooLarge, len(raw), b.Orderer.AbsoluteMaxBytes)
	}
	if !msg.HasNonce() {
		return fmt.Errorf("%w: a transaction without nonce", protoutil.ErrMalformed)
	}
	kind := chain.HeaderType(raw)
	if kind != msg.Channel.Type {
		return fmt.Errorf("%w: envelope with fields twice or out of order", protoutil.ErrMalformed)
	}
	switch commonpb.HeaderType(kind) {
	case commonpb.HeaderType_ENDORSER_TRANSACTION, commonpb.HeaderType_MESSAGE, commonpb.HeaderType_CONFIG_UPDATE:
	default:
		return fmt.Errorf("%w: header type %d, ENDORSER_TRANSACTION is accepted", protoutil.ErrMalformed, kind)
	}
	return checkSigned(b, channelconfig.ChannelWriters, msg)
}
