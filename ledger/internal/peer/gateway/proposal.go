package gateway

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// proposal is what the gateway reads of a signed proposal. Its signature is checked by
// every peer that endorses it.
type proposal struct {
	signed    *peerpb.SignedProposal
	header    *commonpb.Header
	channel   string
	txID      string
	chaincode string
	input     []byte // ChaincodeProposalPayload.input
	transient bool   // it carries data that is for endorsers of one's choice only
}

func parseProposal(signed *peerpb.SignedProposal) (*proposal, error) {
	if len(signed.GetProposalBytes()) == 0 {
		return nil, errors.New("a signed proposal is required")
	}
	var outer peerpb.Proposal
	var header commonpb.Header
	var channel commonpb.ChannelHeader
	var payload peerpb.ChaincodeProposalPayload
	var spec peerpb.ChaincodeInvocationSpec
	if err := protoutil.Unmarshal(signed.GetProposalBytes(), &outer); err != nil {
		return nil, err
	}
	if err := errors.Join(protoutil.Unmarshal(outer.Header, &header), protoutil.Unmarshal(outer.Payload, &payload)); err != nil {
		return nil, err
	}
	if err := errors.Join(protoutil.Unmarshal(header.ChannelHeader, &channel), protoutil.Unmarshal(payload.Input, &spec)); err != nil {
		return nil, err
	}
	p := &proposal{
		signed: signed, header: &header, channel: channel.GetChannelId(), txID: channel.GetTxId(), input: payload.Input,
		chaincode: spec.GetChaincodeSpec().GetChaincodeId().GetName(), transient: len(payload.TransientMap) > 0,
	}
	if p.channel == "" {
		return nil, errors.New("no channel id provided")
	}
	if p.chaincode == "" {
		return nil, fmt.Errorf("no chaincode name is provided, channel id [%s]", p.channel)
	}
	return p, nil
}

// assemble makes the transaction that the client signs. The transient map stays out;
// what remains of the proposal is marshalled as the endorsers did for its hash.
func (p *proposal) assemble(responsePayload []byte, endorsements []*peerpb.Endorsement) (*commonpb.Envelope, error) {
	public, err := proto.Marshal(&peerpb.ChaincodeProposalPayload{Input: p.input})
	if err != nil {
		return nil, err
	}
	action, err := proto.Marshal(&peerpb.ChaincodeActionPayload{
		ChaincodeProposalPayload: public,
		Action:                   &peerpb.ChaincodeEndorsedAction{ProposalResponsePayload: responsePayload, Endorsements: endorsements},
	})
	if err != nil {
		return nil, err
	}
	tx, err := proto.Marshal(&peerpb.Transaction{Actions: []*peerpb.TransactionAction{{Header: p.header.SignatureHeader, Payload: action}}})
	if err != nil {
		return nil, err
	}
	payload, err := proto.Marshal(&commonpb.Payload{Header: p.header, Data: tx})
	if err != nil {
		return nil, err
	}
	return &commonpb.Envelope{Payload: payload}, nil
}

// actionOf reads what the chaincode did out of a proposal response's payload.
func actionOf(responsePayload []byte) (*peerpb.ChaincodeAction, error) {
	var outer peerpb.ProposalResponsePayload
	if err := protoutil.Unmarshal(responsePayload, &outer); err != nil {
		return nil, err
	}
	action := &peerpb.ChaincodeAction{}
	return action, protoutil.Unmarshal(outer.Extension, action)
}
