// Package protoutil makes and takes apart Fabric's nested messages: envelopes,
// transaction ids, block headers and block signatures.
package protoutil

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/protoview"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// ErrMalformed is what every message that cannot be read wraps.
var ErrMalformed = errors.New("malformed message")

// Bounds against hostile input; size as a whole is bounded by the transport.
const (
	maxNesting   = 64
	maxChannelID = 249 // Fabric's
	maxNonce     = 64
	nonceSize    = 24
	// maxSkew is how far a request's time may be from the receiver's: a recorded one is of no use later. As in Fabric.
	maxSkew = 15 * time.Minute
)

// Signer is an identity that can sign (identity.SigningIdentity).
type Signer interface {
	Serialized() []byte
	Sign(msg []byte) ([]byte, error)
}

// Unmarshal is proto.Unmarshal with a bound on nesting; errors wrap ErrMalformed
// and name the message's type. The bytes in the message may be those of raw (package protoview): raw must not change
// afterwards, and a caller that keeps a small part of it for long keeps a copy.
func Unmarshal(raw []byte, into proto.Message) error {
	proto.Reset(into)
	if protoview.Read(raw, into) {
		return nil
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: not a %s", ErrMalformed, into.ProtoReflect().Descriptor().Name())
	}
	return nil
}

// Text is what a string of a message may hold, which is UTF-8: other bytes are replaced. A message with any could not be sent.
func Text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// NewNonce is a fresh random nonce of Fabric's size.
func NewNonce() ([]byte, error) {
	nonce := make([]byte, nonceSize)
	_, err := rand.Read(nonce)
	return nonce, err
}

// TxID is the transaction id that belongs to a nonce and a creator.
func TxID(nonce, creator []byte) string {
	h := sha256.New()
	_, _ = h.Write(nonce)
	_, _ = h.Write(creator)
	return hex.EncodeToString(h.Sum(nil))
}

// NewEnvelope signs data as a message of its own transaction id.
func NewEnvelope(kind commonpb.HeaderType, channelID string, signer Signer, extension, data []byte) (*commonpb.Envelope, string, error) {
	nonce, err := NewNonce()
	if err != nil {
		return nil, "", err
	}
	txID := TxID(nonce, signer.Serialized())
	channel, err := proto.Marshal(&commonpb.ChannelHeader{
		Type: int32(kind), ChannelId: channelID, TxId: txID, Timestamp: timestamppb.Now(), Extension: extension,
	})
	if err != nil {
		return nil, "", err
	}
	signature, err := proto.Marshal(&commonpb.SignatureHeader{Creator: signer.Serialized(), Nonce: nonce})
	if err != nil {
		return nil, "", err
	}
	payload, err := proto.Marshal(&commonpb.Payload{
		Header: &commonpb.Header{ChannelHeader: channel, SignatureHeader: signature}, Data: data,
	})
	if err != nil {
		return nil, "", err
	}
	sig, err := signer.Sign(payload)
	if err != nil {
		return nil, "", err
	}
	return &commonpb.Envelope{Payload: payload, Signature: sig}, txID, nil
}

// Message is an envelope taken apart, parsed once. Nothing in it is verified yet.
type Message struct {
	Envelope  *commonpb.Envelope
	Data      []byte // Payload.data
	Channel   *commonpb.ChannelHeader
	Signature *commonpb.SignatureHeader
}

// ParseEnvelope reads a serialized envelope.
func ParseEnvelope(raw []byte) (*Message, error) {
	var env commonpb.Envelope
	if err := Unmarshal(raw, &env); err != nil {
		return nil, err
	}
	return OpenEnvelope(&env)
}

// OpenEnvelope reads the headers of an envelope; it errs when one is missing or
// out of bounds. The nonce may be empty: clients ask for blocks without one. A caller that
// takes a transaction must insist on it (HasNonce).
func OpenEnvelope(env *commonpb.Envelope) (*Message, error) {
	if len(env.GetPayload()) == 0 {
		return nil, fmt.Errorf("%w: an envelope without payload", ErrMalformed)
	}
	var payload commonpb.Payload
	if err := Unmarshal(env.Payload, &payload); err != nil {
		return nil, err
	}
	if payload.Header == nil {
		return nil, fmt.Errorf("%w: a payload without header", ErrMalformed)
	}
	m := &Message{Envelope: env, Data: payload.Data, Channel: &commonpb.ChannelHeader{}, Signature: &commonpb.SignatureHeader{}}
	if err := Unmarshal(payload.Header.ChannelHeader, m.Channel); err != nil {
		return nil, err
	}
	if err := Unmarshal(payload.Header.SignatureHeader, m.Signature); err != nil {
		return nil, err
	}
	if n := len(m.Channel.ChannelId); n == 0 || n > maxChannelID {
		return nil, fmt.Errorf("%w: channel id of %d bytes, 1 to %d are accepted", ErrMalformed, n, maxChannelID)
	}
	if err := CheckNonce(m.Signature.Nonce); err != nil {
		return nil, err
	}
	return m, nil
}

// CheckNonce refuses, with ErrMalformed, a nonce that is too large for an envelope.
func CheckNonce(nonce []byte) error {
	if n := len(nonce); n > maxNonce {
		return fmt.Errorf("%w: nonce of %d bytes, at most %d are accepted", ErrMalformed, n, maxNonce)
	}
	return nil
}

// CheckTime refuses, with ErrMalformed, a request whose time is too far from now. A request for blocks carries its time, so
// that a recorded one cannot be replayed later.
func (m *Message) CheckTime() error {
	if skew := time.Since(m.Channel.GetTimestamp().AsTime()).Abs(); skew > maxSkew {
		return fmt.Errorf("%w: the request's time is %s off: at most %s is accepted", ErrMalformed, skew, maxSkew)
	}
	return nil
}

// HasNonce reports whether there is a nonce, without which a transaction's id would be its creator's.
func (m *Message) HasNonce() bool { return len(m.Signature.Nonce) > 0 }

// HasOwnTxID reports whether the transaction id is the one that nonce and creator give.
func (m *Message) HasOwnTxID() bool {
	return m.Channel.TxId == TxID(m.Signature.Nonce, m.Signature.Creator)
}
