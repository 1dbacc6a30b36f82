package load

import (
	"fmt"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// drafter makes the signed messages of one client on one channel and chaincode.
type drafter struct {
	signer      *identity.SigningIdentity
	channel     string
	chaincodeID *peerpb.ChaincodeID
	extension   []byte
}

func newDrafter(signer *identity.SigningIdentity, channel, chaincode string) (*drafter, error) {
	id := &peerpb.ChaincodeID{Name: chaincode}
	extension, err := proto.Marshal(&peerpb.ChaincodeHeaderExtension{ChaincodeId: id})
	if err != nil {
		return nil, fmt.Errorf("chaincode name %q: %w", chaincode, err)
	}
	return &drafter{signer: signer, channel: channel, chaincodeID: id, extension: extension}, nil
}

// proposal makes the request that starts a transaction: its id is bound to a
// fresh nonce and to the client.
func (d *drafter) proposal(args [][]byte, now time.Time) (*gatewaypb.EndorseRequest, error) {
	nonce, err := protoutil.NewNonce()
	if err != nil {
		return nil, fmt.Errorf("nonce: %w", err)
	}
	txID := protoutil.TxID(nonce, d.signer.Serialized())
	signed, err := d.sign(txID, nonce, args, now)
	if err != nil {
		return nil, fmt.Errorf("proposal %s: %w", txID, err)
	}
	return &gatewaypb.EndorseRequest{TransactionId: txID, ChannelId: d.channel, ProposedTransaction: signed}, nil
}

func (d *drafter) sign(txID string, nonce []byte, args [][]byte, now time.Time) (*peerpb.SignedProposal, error) {
	var m marshaller
	header := m.bytes(&commonpb.Header{
		ChannelHeader: m.bytes(&commonpb.ChannelHeader{
			Type: int32(commonpb.HeaderType_ENDORSER_TRANSACTION), Timestamp: timestamppb.New(now),
			ChannelId: d.channel, TxId: txID, Extension: d.extension,
		}),
		SignatureHeader: m.bytes(&commonpb.SignatureHeader{Creator: d.signer.Serialized(), Nonce: nonce}),
	})
	payload := m.bytes(&peerpb.ChaincodeProposalPayload{
		Input: m.bytes(&peerpb.ChaincodeInvocationSpec{ChaincodeSpec: &peerpb.ChaincodeSpec{
			Type: peerpb.ChaincodeSpec_GOLANG, ChaincodeId: d.chaincodeID, Input: &peerpb.ChaincodeInput{Args: args},
		}}),
	})
	proposal := m.bytes(&peerpb.Proposal{Header: header, Payload: payload})
	if m.err != nil {
		return nil, m.err
	}
	signature, err := d.signer.Sign(proposal)
	if err != nil {
		return nil, err
	}
	return &peerpb.SignedProposal{ProposalBytes: proposal, Signature: signature}, nil
}

// submit signs the transaction that the gateway prepared.
func (d *drafter) submit(txID string, prepared *commonpb.Envelope) (*gatewaypb.SubmitRequest, error) {
	signature, err := d.signer.Sign(prepared.GetPayload())
	if err != nil {
		return nil, fmt.Errorf("transaction %s: %w", txID, err)
	}
	prepared.Signature = signature
	return &gatewaypb.SubmitRequest{TransactionId: txID, ChannelId: d.channel, PreparedTransaction: prepared}, nil
}

// status asks for the outcome of a transaction.
func (d *drafter) status(txID string) (*gatewaypb.SignedCommitStatusRequest, error) {
	request, err := proto.Marshal(&gatewaypb.CommitStatusRequest{
		TransactionId: txID, ChannelId: d.channel, Identity: d.signer.Serialized(),
	})
	if err != nil {
		return nil, fmt.Errorf("status request of %s: %w", txID, err)
	}
	signature, err := d.signer.Sign(request)
	if err != nil {
		return nil, fmt.Errorf("status request of %s: %w", txID, err)
	}
	return &gatewaypb.SignedCommitStatusRequest{Request: request, Signature: signature}, nil
}

type signedStatus struct {
	request *gatewaypb.SignedCommitStatusRequest
	err     error
}

// statusAhead makes the status request while the caller waits for something else: it
// depends on the transaction's id alone. What the caller sends before it waits goes out first, also where this process
// runs Go on one thread: gRPC's writer and the connection (package wire) each step back once for more to come.
func (d *drafter) statusAhead(txID string) <-chan signedStatus {
	made := make(chan signedStatus, 1)
	go func() {
		for range 3 {
			runtime.Gosched()
		}
		request, err := d.status(txID)
		made <- signedStatus{request, err}
	}()
	return made
}

// marshaller keeps the first error of a nest of messages.
type marshaller struct{ err error }

func (m *marshaller) bytes(message proto.Message) []byte {
	out, err := proto.Marshal(message)
	if m.err == nil {
		m.err = err
	}
	return out
}
