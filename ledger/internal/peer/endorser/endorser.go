// Package endorser runs proposals against the committed state and signs what
// they read and wrote (service protos.Endorser). The peer's own gateway calls it
// directly.
package endorser

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/query"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/peer/syscc"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var log = ops.Logger("endorser")

// Statuses of a response, as the shim has them.
const (
	errorThreshold = 400
	statusError    = 500
)

// systemVersion is what Fabric's system chaincodes call themselves.
const systemVersion = "syscc"

// maxRemote bounds the proposals of other peers and clients that run at once (Fabric's default).
const maxRemote = 2500

// Channel is what an endorser needs of a channel.
type Channel interface {
	Bundle() *channelconfig.Bundle
	// Snapshot is the newest state, and Told the newest that clients may be told of.
	Snapshot() *statedb.Snapshot
	Told() *statedb.Snapshot
	// Exists reports whether a transaction id is taken.
	Exists(key validate.TxKey) (bool, error)
}

// Chaincodes runs transactions in chaincode processes.
type Chaincodes interface {
	Execute(ctx context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error)
}

// System is the system chaincodes, which run within the peer.
type System interface {
	Answer(ctx context.Context, q syscc.Query) *peerpb.Response
	// Local is a configuration that knows the peer's own organisation, and others; nil when there is none.
	Local() *channelconfig.Bundle
}

// Signer is the peer's identity. This process recognises what SignOwn has signed when it validates it.
type Signer interface {
	Serialized() []byte
	SignOwn(msg []byte) ([]byte, error)
}

// Endorser is safe for concurrent use.
type Endorser struct {
	signer     Signer
	channel    func(id string) Channel // nil when the peer has not joined
	chaincodes Chaincodes
	system     System
	metrics    *Metrics
}

// New makes an endorser; metrics may be nil.
func New(signer Signer, channel func(id string) Channel, chaincodes Chaincodes, system System, metrics *Metrics) *Endorser {
	return &Endorser{signer: signer, channel: channel, chaincodes: chaincodes, system: system, metrics: metrics}
}

// ProcessProposal simulates and endorses. A refused proposal is an error; what went wrong in
// the simulation is a response with a status of 500 and no payload; a chaincode's own failure
// is a response without endorsement.
func (e *Endorser) ProcessProposal(ctx context.Context, signed *peerpb.SignedProposal) (*peerpb.ProposalResponse, error) {
	start := time.Now()
	e.metrics.received()
	p, err := open(signed)
	if err != nil {
		e.metrics.refused()
		return nil, err
	}
	id := p.channel.ChannelId
	if id == "" {
		return e.withoutChannel(ctx, p)
	}
	ch := e.channel(id)
	if ch == nil {
		return failed(fmt.Sprintf("channel '%s' not found", id)), nil
	}
	bundle := ch.Bundle()
	if err := p.check(bundle); err != nil {
		e.metrics.refused()
		return nil, fmt.Errorf("error validating proposal: %w", err)
	}
	if err := p.checkMayPropose(bundle); err != nil {
		e.metrics.failed(denied, bundle, p.chaincode)
		return nil, fmt.Errorf("error validating proposal: %w", err)
	}
	taken, err := ch.Exists(p.key)
	if err != nil { // the peer's own failure, which another one may not have
		return failed(err.Error()), nil
	}
	if taken {
		e.metrics.failed(duplicate, bundle, p.chaincode)
		return nil, fmt.Errorf("duplicate transaction found [%s]. Creator [%x]", p.channel.TxId, p.signature.Creator)
	}
	response, err := e.endorse(ctx, p, ch, bundle)
	if err != nil {
		response = failed(err.Error())
	}
	e.metrics.done(id, p.chaincode, response.Endorsement != nil, time.Since(start))
	return response, nil
}

// failed says why there is no endorsement. A chaincode may have given any bytes as its reason.
func failed(message string) *peerpb.ProposalResponse {
	return &peerpb.ProposalResponse{Response: &peerpb.Response{Status: statusError, Message: protoutil.Text(message)}}
}

// withoutChannel answers what is asked of the peer itself; as in Fabric nothing is endorsed. Fabric lets the peer's
// own organisation ask; here all of its first channel may, and the system chaincodes' policies decide.
func (e *Endorser) withoutChannel(ctx context.Context, p *proposal) (*peerpb.ProposalResponse, error) {
	bundle := e.system.Local()
	if bundle == nil {
		return failed("the peer has joined no channel"), nil
	}
	if err := p.check(bundle); err != nil {
		e.metrics.refused()
		return nil, fmt.Errorf("error validating proposal: %w", err)
	}
	if !channelconfig.IsSystemChaincode(p.chaincode) {
		return failed(fmt.Sprintf("chaincode %s: a proposal without a channel can only go to a system chaincode", p.chaincode)), nil
	}
	return &peerpb.ProposalResponse{Response: e.system.Answer(ctx, p.query())}, nil
}

func (p *proposal) query() syscc.Query {
	return syscc.Query{Chaincode: p.chaincode, ChannelID: p.channel.ChannelId, Creator: p.signature.Creator, Args: p.input.Args}
}

// run executes a proposal's chaincode; version is that of its definition.
func (e *Endorser) run(
	ctx context.Context, p *proposal, sim *rwset.Simulator, bundle *channelconfig.Bundle,
) (response *peerpb.Response, event *peerpb.ChaincodeEvent, version string, err error) {
	if channelconfig.IsSystemChaincode(p.chaincode) {
		return e.system.Answer(ctx, p.query()), nil, systemVersion, nil
	}
	definition := bundle.Chaincodes[p.chaincode]
	if definition == nil {
		return nil, nil, "", fmt.Errorf("make sure the chaincode %s has been successfully defined on channel %s and try again: chaincode %s not found",
			p.chaincode, bundle.ChannelID, p.chaincode)
	}
	response, event, err = e.chaincodes.Execute(ctx, cchost.Invocation{
		ChannelID: bundle.ChannelID, TxID: p.channel.TxId, Chaincode: p.chaincode, SignedProposal: p.signed, Input: p.input,
		Defined: func(name string) bool { return bundle.Chaincodes[name] != nil },
	}, ledgerView{sim})
	if err != nil {
		return nil, nil, "", fmt.Errorf("error in simulation: %w", err)
	}
	return response, event, definition.Version, nil
}

func (e *Endorser) endorse(ctx context.Context, p *proposal, ch Channel, bundle *channelconfig.Bundle) (*peerpb.ProposalResponse, error) {
	snapshot := ch.Snapshot
	if query.Is(ctx) {
		snapshot = ch.Told
	}
	sim := rwset.NewSimulator(snapshot())
	response, event, version, err := e.run(ctx, p, sim, bundle)
	if err != nil {
		e.metrics.failed(simulation, bundle, p.chaincode)
		return nil, err
	}
	payload, err := p.respond(sim, response, event, version)
	if err != nil {
		return nil, fmt.Errorf("failed to create the proposal response: %w", err)
	}
	out := &peerpb.ProposalResponse{Version: 1, Timestamp: timestamppb.Now(), Response: response, Payload: payload}
	if response.Status >= errorThreshold {
		e.metrics.unendorsed(bundle, p.chaincode)
		return out, nil
	}
	creator := e.signer.Serialized()
	message := make([]byte, 0, len(payload)+len(creator))
	message = append(append(message, payload...), creator...)
	signature, err := e.signer.SignOwn(message)
	if err != nil {
		return nil, fmt.Errorf("endorsing with the peer's key failed: %w", err)
	}
	out.Endorsement = &peerpb.Endorsement{Endorser: creator, Signature: signature}
	return out, nil
}

// respond encodes what is endorsed: the proposal, and what it did.
func (p *proposal) respond(sim *rwset.Simulator, response *peerpb.Response, event *peerpb.ChaincodeEvent, version string) ([]byte, error) {
	results, err := sim.Encode()
	if err != nil {
		return nil, err
	}
	action := &peerpb.ChaincodeAction{
		Results: results, Response: response, ChaincodeId: &peerpb.ChaincodeID{Name: p.chaincode, Version: version},
	}
	if event != nil {
		if action.Events, err = proto.Marshal(event); err != nil {
			return nil, err
		}
	}
	extension, err := proto.Marshal(action)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&peerpb.ProposalResponsePayload{ProposalHash: p.hash, Extension: extension})
}

// ledgerView is the simulator as chaincodes see it.
type ledgerView struct{ *rwset.Simulator }

func (v ledgerView) GetState(namespace, key string) ([]byte, error) { return v.Get(namespace, key) }

func (v ledgerView) PutState(namespace, key string, value []byte) error {
	return v.Put(namespace, key, value)
}

func (v ledgerView) DelState(namespace, key string) error { return v.Delete(namespace, key) }

func (v ledgerView) Range(namespace, start, end string) (cchost.Iterator, error) {
	return v.Simulator.Range(namespace, start, end), nil
}

// Service is the endorser on the network. It bounds how many proposals run at once.
type Service struct {
	peerpb.UnimplementedEndorserServer
	*Endorser
	running atomic.Int64
}

// ProcessProposal implements protos.Endorser.
func (s *Service) ProcessProposal(ctx context.Context, signed *peerpb.SignedProposal) (*peerpb.ProposalResponse, error) {
	defer s.running.Add(-1)
	if s.running.Add(1) > maxRemote {
		return nil, status.Errorf(codes.ResourceExhausted, "too many requests for /protos.Endorser, exceeding concurrency limit (%d)", maxRemote)
	}
	return s.Endorser.ProcessProposal(ctx, signed)
}
