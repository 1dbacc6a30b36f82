// Package peertest makes what tests of a peer need: a channel with real
// certificates, endorsed transactions with real signatures, and an orderer that seals.
package peertest

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Channel is the name of the test channel. Its chaincodes are "kv" (either
// organisation endorses) and "both" (both do).
const Channel = "mychannel"

// World is a network's identities and its channel.
type World struct {
	T       testing.TB
	Genesis *commonpb.Block
	Bundle  *channelconfig.Bundle
	CAs     map[string]*ca.Authority
	// Replicas are the orderers' identities, where some may lie.
	Replicas []*identity.SigningIdentity
	signers  map[string]*identity.SigningIdentity
}

// Options change the channel that New makes.
type Options struct {
	Mode     channelconfig.Mode
	Orderers []string            // host:port
	Peers    map[string][]string // MSP id to host:port
	TLSCert  []byte              // PEM, of every organisation; its own authority by default
	// Liars is how many orderers may lie: three times as many and one more are consenters, at the first of Orderers.
	Liars int
}

// New makes a network of Org1MSP, Org2MSP and OrdererMSP.
func New(t testing.TB, opts Options) *World {
	t.Helper()
	w := &World{T: t, CAs: map[string]*ca.Authority{}, signers: map[string]*identity.SigningIdentity{}}
	org := func(msp string, endpoints []string) channelconfig.GenesisOrg {
		a, err := ca.New("ca", msp)
		require.NoError(t, err)
		w.CAs[msp] = a
		tls := opts.TLSCert
		if tls == nil {
			tls = a.CertPEM()
		}
		return channelconfig.GenesisOrg{MSPID: msp, RootCert: a.CertPEM(), TLSCert: tls, Endpoints: endpoints}
	}
	orderers := opts.Orderers
	if orderers == nil {
		orderers = []string{"127.0.0.1:1"}
	}
	genesis := channelconfig.Genesis{
		ChannelID: Channel, ConsensusType: channelconfig.Solo,
		MaxMessageCount: 500, AbsoluteMaxBytes: 10 << 20, PreferredMaxBytes: 2 << 20, BatchTimeout: time.Second,
		Mode: opts.Mode, VirtualBlockTxs: 100, VirtualBlockInterval: 100 * time.Millisecond,
		OrdererOrgs:     []channelconfig.GenesisOrg{org("OrdererMSP", orderers)},
		ApplicationOrgs: []channelconfig.GenesisOrg{org("Org1MSP", opts.Peers["Org1MSP"]), org("Org2MSP", opts.Peers["Org2MSP"])},
		Chaincodes: []channelconfig.GenesisChaincode{
			{Name: "kv", Version: "1.0", Policy: "OR('Org1MSP.peer','Org2MSP.peer')"},
			{Name: "both", Version: "1.0", Policy: "AND('Org1MSP.peer','Org2MSP.peer')"},
		},
	}
	if opts.Liars > 0 {
		w.replicate(&genesis, 3*opts.Liars+1)
	}
	var err error
	w.Genesis, err = channelconfig.NewGenesis(genesis)
	require.NoError(t, err)
	w.Bundle, err = channelconfig.FromBlock(w.Genesis)
	require.NoError(t, err)
	return w
}

// replicate has so many orderers seal blocks together.
func (w *World) replicate(g *channelconfig.Genesis, consenters int) {
	g.ConsensusType = channelconfig.BFT
	addresses := g.OrdererOrgs[0].Endpoints
	for i := range consenters {
		cert, key, err := w.CAs["OrdererMSP"].Issue(ca.Request{CommonName: fmt.Sprint("orderer", i+1), Unit: "orderer"})
		require.NoError(w.T, err)
		signer, err := identity.NewSigner("OrdererMSP", cert, key)
		require.NoError(w.T, err)
		w.Replicas = append(w.Replicas, signer)
		address := fmt.Sprint("127.0.0.1:", i+1)
		if i < len(addresses) {
			address = addresses[i]
		}
		host, port, err := net.SplitHostPort(address)
		require.NoError(w.T, err)
		number, err := strconv.ParseUint(port, 10, 16)
		require.NoError(w.T, err)
		g.Consenters = append(g.Consenters, &etcdraftpb.Consenter{Host: host, Port: uint32(number)})
		g.Identities = append(g.Identities, channelconfig.GenesisIdentity{MSPID: "OrdererMSP", Cert: cert})
	}
}

// Signer is the organisation's identity of a unit (client, peer, admin, orderer).
func (w *World) Signer(msp, unit string) *identity.SigningIdentity {
	w.T.Helper()
	if s := w.signers[msp+unit]; s != nil {
		return s
	}
	cert, key, err := w.CAs[msp].Issue(ca.Request{CommonName: unit, Unit: unit})
	require.NoError(w.T, err)
	s, err := identity.NewSigner(msp, cert, key)
	require.NoError(w.T, err)
	w.signers[msp+unit] = s
	return s
}

// Tx describes a transaction to make. The zero value is a valid one of client Org1MSP on kv,
// endorsed by Org1MSP, that reads and writes nothing.
type Tx struct {
	Chaincode string
	Client    *identity.SigningIdentity
	Endorsers []*identity.SigningIdentity
	Results   []byte
	Event     *peerpb.ChaincodeEvent // its chaincode and id are filled in
	Nonce     []byte
	Change    func(*Parts) // spoils the parts before they are put together
}

// Parts are what a transaction is made of.
type Parts struct {
	Channel  *commonpb.ChannelHeader
	Header   *commonpb.SignatureHeader
	Input    []byte
	Response *peerpb.ProposalResponsePayload
	Action   *peerpb.ChaincodeAction
	Actions  int
	Endorse  func([]*peerpb.Endorsement) []*peerpb.Endorsement
	Envelope func(*commonpb.Envelope)
}

// Raw builds the signed envelope.
func (w *World) Raw(tx Tx) []byte {
	w.T.Helper()
	raw, _ := w.Make(tx)
	return raw
}

// Make builds the signed envelope and its transaction id.
func (w *World) Make(tx Tx) (raw []byte, id string) {
	w.T.Helper()
	if tx.Chaincode == "" {
		tx.Chaincode = "kv"
	}
	if tx.Client == nil {
		tx.Client = w.Signer("Org1MSP", "client")
	}
	if tx.Endorsers == nil {
		tx.Endorsers = []*identity.SigningIdentity{w.Signer("Org1MSP", "peer")}
	}
	nonce := tx.Nonce
	if nonce == nil {
		var err error
		nonce, err = protoutil.NewNonce()
		require.NoError(w.T, err)
	}
	id = protoutil.TxID(nonce, tx.Client.Serialized())
	cc := &peerpb.ChaincodeID{Name: tx.Chaincode, Version: "1.0"}
	p := &Parts{
		Channel: &commonpb.ChannelHeader{
			Type: int32(commonpb.HeaderType_ENDORSER_TRANSACTION), ChannelId: Channel, TxId: id, Timestamp: timestamppb.Now(),
			Extension: w.marshal(&peerpb.ChaincodeHeaderExtension{ChaincodeId: &peerpb.ChaincodeID{Name: tx.Chaincode}}),
		},
		Header:   &commonpb.SignatureHeader{Creator: tx.Client.Serialized(), Nonce: nonce},
		Input:    w.marshal(&peerpb.ChaincodeProposalPayload{Input: []byte("input")}),
		Action:   &peerpb.ChaincodeAction{Results: tx.Results, Response: &peerpb.Response{Status: 200}, ChaincodeId: cc},
		Response: &peerpb.ProposalResponsePayload{},
		Actions:  1,
	}
	if tx.Event != nil {
		event := proto.Clone(tx.Event).(*peerpb.ChaincodeEvent)
		event.ChaincodeId, event.TxId = tx.Chaincode, id
		p.Action.Events = w.marshal(event)
	}
	p.Response.ProposalHash = validate.ProposalHash(w.marshal(p.Channel), w.marshal(p.Header), p.Input)
	if tx.Change != nil {
		tx.Change(p)
	}
	if p.Response.Extension == nil {
		p.Response.Extension = w.marshal(p.Action)
	}
	return w.assemble(tx, p), id
}

func (w *World) assemble(tx Tx, p *Parts) []byte {
	payload := w.marshal(p.Response)
	var endorsements []*peerpb.Endorsement
	for _, e := range tx.Endorsers {
		sig, err := e.Sign(append(append([]byte{}, payload...), e.Serialized()...))
		require.NoError(w.T, err)
		endorsements = append(endorsements, &peerpb.Endorsement{Endorser: e.Serialized(), Signature: sig})
	}
	if p.Endorse != nil {
		endorsements = p.Endorse(endorsements)
	}
	body := &peerpb.Transaction{}
	for range p.Actions {
		body.Actions = append(body.Actions, &peerpb.TransactionAction{
			Header: w.marshal(p.Header),
			Payload: w.marshal(&peerpb.ChaincodeActionPayload{
				ChaincodeProposalPayload: p.Input,
				Action:                   &peerpb.ChaincodeEndorsedAction{ProposalResponsePayload: payload, Endorsements: endorsements},
			}),
		})
	}
	env := &commonpb.Envelope{Payload: w.marshal(&commonpb.Payload{
		Header: &commonpb.Header{ChannelHeader: w.marshal(p.Channel), SignatureHeader: w.marshal(p.Header)},
		Data:   w.marshal(body),
	})}
	var err error
	env.Signature, err = tx.Client.Sign(env.Payload)
	require.NoError(w.T, err)
	if p.Envelope != nil {
		p.Envelope(env)
	}
	return w.marshal(env)
}

func (w *World) marshal(m proto.Message) []byte {
	raw, err := proto.Marshal(m)
	require.NoError(w.T, err)
	return raw
}

// Simulate records what run does on a state.
func (w *World) Simulate(s *statedb.Snapshot, run func(*rwset.Simulator)) []byte {
	sim := rwset.NewSimulator(s)
	run(sim)
	raw, err := sim.Encode()
	require.NoError(w.T, err)
	return raw
}

// Orderer chains and seals blocks as an orderer of the world does.
type Orderer struct {
	World    *World
	Number   uint64
	Previous []byte
}

// NewOrderer continues after the genesis block.
func (w *World) NewOrderer() *Orderer {
	return &Orderer{World: w, Number: 1, Previous: protoutil.BlockHeaderHash(w.Genesis.Header)}
}

// Seal ends a block of these transactions.
func (o *Orderer) Seal(txs [][]byte) (*commonpb.BlockHeader, *commonpb.BlockMetadata) {
	o.World.T.Helper()
	header := &commonpb.BlockHeader{Number: o.Number, PreviousHash: o.Previous, DataHash: protoutil.DataHash(txs)}
	metadata, err := o.sign(header)
	require.NoError(o.World.T, err)
	o.Number++
	o.Previous = protoutil.BlockHeaderHash(header)
	return header, metadata
}

func (o *Orderer) sign(header *commonpb.BlockHeader) (*commonpb.BlockMetadata, error) {
	replicas := o.World.Replicas
	if len(replicas) == 0 {
		return protoutil.SignBlock(o.World.Signer("OrdererMSP", "orderer"), header, 0, nil)
	}
	var signatures []*commonpb.MetadataSignature
	for i := range channelconfig.Quorum(len(replicas)) {
		signature, err := protoutil.SignAsConsenter(replicas[i], uint32(i)+1, header, 0, nil)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, signature)
	}
	return protoutil.SignedBlock(0, nil, signatures)
}
