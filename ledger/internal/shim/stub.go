package shim

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// ErrPeer marks what the peer refused or could not do.
var ErrPeer = errors.New("the peer answered with an error")

// Stub is a running transaction as its contract sees it. It belongs to the
// goroutine of that transaction.
type Stub struct {
	session   *session
	channelID string
	txID      string
	args      [][]byte
	proposal  *peerpb.SignedProposal
	event     *peerpb.ChaincodeEvent
	replies   chan *peerpb.ChaincodeMessage
	writes    []*peerpb.WriteRecord // not yet told to the peer
	held      int                   // their bytes
	refused   error                 // why the peer did not take writes that the contract believes made
	paged     bool                  // it has made a paged query
}

func newStub(s *session, msg *peerpb.ChaincodeMessage) (*Stub, error) {
	input := &peerpb.ChaincodeInput{}
	if err := proto.Unmarshal(msg.GetPayload(), input); err != nil {
		return nil, fmt.Errorf("transaction input: %w", err)
	}
	return &Stub{
		session: s, channelID: msg.GetChannelId(), txID: msg.GetTxid(), args: input.GetArgs(),
		proposal: msg.GetProposal(), replies: make(chan *peerpb.ChaincodeMessage, 1),
	}, nil
}

func (s *Stub) key() txKey { return txKey{s.channelID, s.txID} }

// ask sends one question and waits for its answer, or for the end of the stream.
func (s *Stub) ask(kind peerpb.ChaincodeMessage_Type, question proto.Message) ([]byte, error) {
	payload, err := proto.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	err = s.session.send(&peerpb.ChaincodeMessage{Type: kind, Payload: payload, Txid: s.txID, ChannelId: s.channelID})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	select {
	case reply := <-s.replies:
		if reply.GetType() == peerpb.ChaincodeMessage_ERROR {
			return nil, fmt.Errorf("%s: %w: %s", kind, ErrPeer, reply.GetPayload())
		}
		return reply.GetPayload(), nil
	case <-s.session.ctx.Done():
		return nil, fmt.Errorf("%s: the peer is gone: %w", kind, s.session.ctx.Err())
	}
}

// Args are the arguments as they came, the function's name first.
func (s *Stub) Args() [][]byte { return s.args }

// FunctionAndParameters splits the arguments into a name and texts.
func (s *Stub) FunctionAndParameters() (string, []string) {
	if len(s.args) == 0 {
		return "", nil
	}
	params := make([]string, len(s.args)-1)
	for i, arg := range s.args[1:] {
		params[i] = string(arg)
	}
	return string(s.args[0]), params
}

// GetTxID is the transaction's id.
func (s *Stub) GetTxID() string { return s.txID }

// GetChannelID is the channel the transaction runs on.
func (s *Stub) GetChannelID() string { return s.channelID }

// GetState returns the committed value of a key, nil when there is none.
func (s *Stub) GetState(key string) ([]byte, error) {
	value, err := s.ask(peerpb.ChaincodeMessage_GET_STATE, &peerpb.GetState{Key: key})
	if err != nil || len(value) == 0 {
		return nil, err
	}
	return value, nil
}

// SetEvent attaches the transaction's event; a later call replaces it.
func (s *Stub) SetEvent(name string, payload []byte) error {
	if name == "" {
		return errors.New("an event needs a name")
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("the name %q of an event is not UTF-8", name)
	}
	s.event = &peerpb.ChaincodeEvent{EventName: name, Payload: payload, TxId: s.txID}
	return nil
}

// InvokeChaincode runs another chaincode inside this transaction; with an empty
// channel or the transaction's own, its reads and writes join this transaction's.
func (s *Stub) InvokeChaincode(name string, args [][]byte, channel string) (*peerpb.Response, error) {
	if channel != "" {
		name += "/" + channel
	}
	// Both may write the same keys.
	if err := s.flush(); err != nil {
		return nil, err
	}
	payload, err := s.ask(peerpb.ChaincodeMessage_INVOKE_CHAINCODE, &peerpb.ChaincodeSpec{
		ChaincodeId: &peerpb.ChaincodeID{Name: name}, Input: &peerpb.ChaincodeInput{Args: args},
	})
	if err != nil {
		return nil, err
	}
	// The answer wraps the other chaincode's own last message.
	inner, response := &peerpb.ChaincodeMessage{}, &peerpb.Response{}
	if err := proto.Unmarshal(payload, inner); err != nil {
		return nil, fmt.Errorf("the answer of chaincode %s: %w", name, err)
	}
	if inner.GetType() != peerpb.ChaincodeMessage_COMPLETED {
		return nil, fmt.Errorf("chaincode %s: %w: %s", name, ErrPeer, inner.GetPayload())
	}
	if err := proto.Unmarshal(inner.GetPayload(), response); err != nil {
		return nil, fmt.Errorf("the response of chaincode %s: %w", name, err)
	}
	return response, nil
}

// GetMultipleStates returns the committed values of keys in their order, nil where there is none.
func (s *Stub) GetMultipleStates(keys ...string) ([][]byte, error) {
	values := make([][]byte, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), int(s.session.offered.GetMaxSizeGetMultipleKeys()))
		if n < 2 || !s.session.offered.GetUseGetMultipleKeys() {
			value, err := s.GetState(keys[0])
			if err != nil {
				return nil, err
			}
			values, keys = append(values, value), keys[1:]
			continue
		}
		some, err := s.getSome(keys[:n])
		if err != nil {
			return nil, err
		}
		values, keys = append(values, some...), keys[n:]
	}
	return values, nil
}

func (s *Stub) getSome(keys []string) ([][]byte, error) {
	payload, err := s.ask(peerpb.ChaincodeMessage_GET_STATE_MULTIPLE, &peerpb.GetStateMultiple{Keys: keys})
	if err != nil {
		return nil, err
	}
	result := &peerpb.GetStateMultipleResult{}
	if err := proto.Unmarshal(payload, result); err != nil {
		return nil, fmt.Errorf("values of %d keys: %w", len(keys), err)
	}
	values := result.GetValues()
	if len(values) != len(keys) {
		return nil, fmt.Errorf("values of %d keys: the peer gave %d", len(keys), len(values))
	}
	for i, value := range values {
		if len(value) == 0 {
			values[i] = nil
		}
	}
	return values, nil
}

// GetSignedProposal is what the client signed; nil for calls without a client.
func (s *Stub) GetSignedProposal() *peerpb.SignedProposal { return s.proposal }

// GetCreator is the serialized identity of the client.
func (s *Stub) GetCreator() ([]byte, error) {
	_, header, err := s.parseProposal()
	if err != nil {
		return nil, err
	}
	signature := &commonpb.SignatureHeader{}
	if err := proto.Unmarshal(header.GetSignatureHeader(), signature); err != nil {
		return nil, fmt.Errorf("signature header of the proposal: %w", err)
	}
	return signature.GetCreator(), nil
}

// GetTransient is the proposal's transient map: it is not part of the transaction.
func (s *Stub) GetTransient() (map[string][]byte, error) {
	proposal, _, err := s.parseProposal()
	if err != nil {
		return nil, err
	}
	payload := &peerpb.ChaincodeProposalPayload{}
	if err := proto.Unmarshal(proposal.GetPayload(), payload); err != nil {
		return nil, fmt.Errorf("payload of the proposal: %w", err)
	}
	return payload.GetTransientMap(), nil
}

// GetTxTimestamp is the client's time, the same on every peer.
func (s *Stub) GetTxTimestamp() (time.Time, error) {
	_, header, err := s.parseProposal()
	if err != nil {
		return time.Time{}, err
	}
	channel := &commonpb.ChannelHeader{}
	if err := proto.Unmarshal(header.GetChannelHeader(), channel); err != nil {
		return time.Time{}, fmt.Errorf("channel header of the proposal: %w", err)
	}
	return channel.GetTimestamp().AsTime(), nil
}

// parseProposal is done on demand: few contracts look at their client.
func (s *Stub) parseProposal() (*peerpb.Proposal, *commonpb.Header, error) {
	proposal, header := &peerpb.Proposal{}, &commonpb.Header{}
	if s.proposal == nil {
		return nil, nil, errors.New("this transaction has no proposal")
	}
	if err := proto.Unmarshal(s.proposal.GetProposalBytes(), proposal); err != nil {
		return nil, nil, fmt.Errorf("proposal: %w", err)
	}
	if err := proto.Unmarshal(proposal.GetHeader(), header); err != nil {
		return nil, nil, fmt.Errorf("header of the proposal: %w", err)
	}
	return proposal, header, nil
}
