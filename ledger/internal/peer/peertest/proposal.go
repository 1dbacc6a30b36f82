package peertest

import (
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Proposal describes a proposal to make. The zero value is client Org1MSP's, to kv, without arguments.
type Proposal struct {
	Chaincode   string
	Client      *identity.SigningIdentity
	Args        []string
	Decorations map[string][]byte
	Transient   map[string][]byte
	Change      func(*commonpb.ChannelHeader, *commonpb.SignatureHeader) // spoils the headers before they are signed
}

// Propose builds the signed proposal and its transaction id.
func (w *World) Propose(p Proposal) (*peerpb.SignedProposal, string) {
	w.T.Helper()
	if p.Chaincode == "" {
		p.Chaincode = "kv"
	}
	if p.Client == nil {
		p.Client = w.Signer("Org1MSP", "client")
	}
	nonce, err := protoutil.NewNonce()
	require.NoError(w.T, err)
	id := protoutil.TxID(nonce, p.Client.Serialized())
	cc := &peerpb.ChaincodeID{Name: p.Chaincode}
	channel := &commonpb.ChannelHeader{
		Type: int32(commonpb.HeaderType_ENDORSER_TRANSACTION), ChannelId: Channel, TxId: id, Timestamp: timestamppb.Now(),
		Extension: w.marshal(&peerpb.ChaincodeHeaderExtension{ChaincodeId: cc}),
	}
	signature := &commonpb.SignatureHeader{Creator: p.Client.Serialized(), Nonce: nonce}
	if p.Change != nil {
		p.Change(channel, signature)
	}
	var args [][]byte
	for _, a := range p.Args {
		args = append(args, []byte(a))
	}
	raw := w.marshal(&peerpb.Proposal{
		Header: w.marshal(&commonpb.Header{ChannelHeader: w.marshal(channel), SignatureHeader: w.marshal(signature)}),
		Payload: w.marshal(&peerpb.ChaincodeProposalPayload{
			Input: w.marshal(&peerpb.ChaincodeInvocationSpec{ChaincodeSpec: &peerpb.ChaincodeSpec{
				ChaincodeId: cc, Input: &peerpb.ChaincodeInput{Args: args, Decorations: p.Decorations},
			}}),
			TransientMap: p.Transient,
		}),
	})
	sig, err := p.Client.Sign(raw)
	require.NoError(w.T, err)
	return &peerpb.SignedProposal{ProposalBytes: raw, Signature: sig}, id
}

// Assemble puts a proposal and its endorsements together into a transaction, as a gateway does.
func (w *World) Assemble(client *identity.SigningIdentity, signed *peerpb.SignedProposal, answers ...*peerpb.ProposalResponse) []byte {
	w.T.Helper()
	var proposal peerpb.Proposal
	var header commonpb.Header
	var payload peerpb.ChaincodeProposalPayload
	require.NoError(w.T, protoutil.Unmarshal(signed.ProposalBytes, &proposal))
	require.NoError(w.T, protoutil.Unmarshal(proposal.Header, &header))
	require.NoError(w.T, protoutil.Unmarshal(proposal.Payload, &payload))
	endorsed := &peerpb.ChaincodeEndorsedAction{ProposalResponsePayload: answers[0].Payload}
	for _, a := range answers {
		endorsed.Endorsements = append(endorsed.Endorsements, a.Endorsement)
	}
	env := &commonpb.Envelope{Payload: w.marshal(&commonpb.Payload{
		Header: &header,
		Data: w.marshal(&peerpb.Transaction{Actions: []*peerpb.TransactionAction{{
			Header: header.SignatureHeader,
			Payload: w.marshal(&peerpb.ChaincodeActionPayload{
				ChaincodeProposalPayload: w.marshal(&peerpb.ChaincodeProposalPayload{Input: payload.Input}), Action: endorsed,
			}),
		}}}),
	})}
	var err error
	env.Signature, err = client.Sign(env.Payload)
	require.NoError(w.T, err)
	return w.marshal(env)
}
