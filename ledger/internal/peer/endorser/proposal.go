package endorser

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// proposers is the policy that Fabric asks before it runs a proposal (peer/Propose).
const proposers = channelconfig.ApplicationWriters

// proposal is a signed proposal taken apart.
type proposal struct {
	signed    *peerpb.SignedProposal
	channel   *commonpb.ChannelHeader
	signature *commonpb.SignatureHeader
	key       validate.TxKey
	chaincode string
	input     *peerpb.ChaincodeInput
	hash      []byte
	creator   *identity.Identity // once it is checked
}

// open reads a proposal; what it says is not checked yet.
func open(signed *peerpb.SignedProposal) (*proposal, error) {
	if len(signed.GetProposalBytes()) == 0 {
		return nil, errors.New("empty proposal bytes")
	}
	// What else a client has put beside them is not signed, and no chaincode's to read.
	signed = &peerpb.SignedProposal{ProposalBytes: signed.ProposalBytes, Signature: signed.Signature}
	p := &proposal{signed: signed, channel: &commonpb.ChannelHeader{}, signature: &commonpb.SignatureHeader{}}
	var outer peerpb.Proposal
	var header commonpb.Header
	var extension peerpb.ChaincodeHeaderExtension
	var payload peerpb.ChaincodeProposalPayload
	var invocation peerpb.ChaincodeInvocationSpec
	for _, part := range []struct {
		raw  *[]byte
		into proto.Message
	}{
		{&signed.ProposalBytes, &outer}, {&outer.Header, &header}, {&header.ChannelHeader, p.channel}, {&header.SignatureHeader, p.signature},
		{&p.channel.Extension, &extension}, {&outer.Payload, &payload}, {&payload.Input, &invocation},
	} {
		if err := protoutil.Unmarshal(*part.raw, part.into); err != nil {
			return nil, err
		}
	}
	p.chaincode = extension.GetChaincodeId().GetName()
	p.input = invocation.GetChaincodeSpec().GetInput()
	if p.chaincode == "" {
		return nil, errors.New("ChaincodeHeaderExtension.ChaincodeId.Name is empty")
	}
	if p.input == nil {
		return nil, errors.New("chaincode input did not contain any input")
	}
	p.input.Decorations = nil // they are for a peer to make, as in Fabric; a chaincode must not take a client's for those
	// What is endorsed is the proposal without its transient map, which stays off the ledger.
	lasting, err := proto.Marshal(&peerpb.ChaincodeProposalPayload{Input: payload.Input})
	if err != nil {
		return nil, err
	}
	p.hash = validate.ProposalHash(header.ChannelHeader, header.SignatureHeader, lasting)
	return p, nil
}

// check refuses what Fabric refuses, in its words, by the organisations that a configuration knows.
func (p *proposal) check(bundle *channelconfig.Bundle) error {
	// Fabric's tools call cscc's JoinChain a configuration.
	joining := p.channel.ChannelId == "" && p.chaincode == channelconfig.ChannelQueries
	if kind := commonpb.HeaderType(p.channel.Type); kind != commonpb.HeaderType_ENDORSER_TRANSACTION && !(joining && kind == commonpb.HeaderType_CONFIG) {
		return fmt.Errorf("invalid header type %s", kind)
	}
	if p.channel.Epoch != 0 {
		return errors.New("epoch is non-zero")
	}
	if len(p.signature.Nonce) == 0 {
		return errors.New("nonce is empty")
	}
	if err := protoutil.CheckNonce(p.signature.Nonce); err != nil {
		return err // the transaction would be refused
	}
	key, ok := validate.ParseTxID(p.channel.TxId)
	if want := protoutil.TxID(p.signature.Nonce, p.signature.Creator); !ok || want != p.channel.TxId {
		return fmt.Errorf("incorrectly computed txid '%s' -- expected '%s'", p.channel.TxId, want)
	}
	p.key = key
	creator, err := bundle.MSP.Deserialize(p.signature.Creator)
	if errors.Is(err, identity.ErrUnknownMSP) || errors.Is(err, identity.ErrMalformed) || errors.Is(err, identity.ErrUntrusted) {
		return fmt.Errorf("access denied: channel [%s] creator org unknown, creator is malformed", p.channel.ChannelId)
	}
	if err != nil {
		log.Debugf("[%s] proposal %s: %s", p.channel.ChannelId, p.channel.TxId, err)
		var claimed msppb.SerializedIdentity
		_ = protoutil.Unmarshal(p.signature.Creator, &claimed) // it was read once already
		return fmt.Errorf("access denied: channel [%s] creator org [%s]", p.channel.ChannelId, claimed.Mspid)
	}
	// The transaction will be judged by the proposal's time, so that must be a time at which the creator may act.
	if dated := p.channel.GetTimestamp().AsTime(); !creator.ValidAt(dated) {
		return fmt.Errorf("access denied: channel [%s] creator org [%s], the certificate is not valid at the proposal's time %s",
			p.channel.ChannelId, creator.MSPID, dated.Format(time.RFC3339))
	}
	if creator.Verify(p.signed.ProposalBytes, p.signed.Signature) != nil {
		return fmt.Errorf("access denied: channel [%s] creator org [%s]", p.channel.ChannelId, creator.MSPID)
	}
	p.creator = creator
	return nil
}

// checkMayPropose is for chaincodes of the channel: system chaincodes have policies of their own.
func (p *proposal) checkMayPropose(bundle *channelconfig.Bundle) error {
	if channelconfig.IsSystemChaincode(p.chaincode) {
		return nil
	}
	if !bundle.Policy(proposers).Evaluate([]*identity.Identity{p.creator}) {
		return fmt.Errorf("access denied: channel [%s] creator org [%s], policy %s is not satisfied", bundle.ChannelID, p.creator.MSPID, proposers)
	}
	return nil
}
