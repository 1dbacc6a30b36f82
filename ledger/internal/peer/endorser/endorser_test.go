package endorser_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/endorser"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/query"
	"github.com/qioi/qioi/ledger/internal/peer/syscc"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// fakeChannel is a channel without a ledger.
type fakeChannel struct {
	bundle *channelconfig.Bundle
	state  *statedb.DB
	told   *statedb.DB // nil: state
	taken  map[validate.TxKey]bool
	lost   error // why that cannot be read
}

func (c *fakeChannel) Bundle() *channelconfig.Bundle           { return c.bundle }
func (c *fakeChannel) Snapshot() *statedb.Snapshot             { return c.state.Snapshot() }
func (c *fakeChannel) Exists(key validate.TxKey) (bool, error) { return c.taken[key], c.lost }

func (c *fakeChannel) Told() *statedb.Snapshot {
	if c.told != nil {
		return c.told.Snapshot()
	}
	return c.Snapshot()
}

// script runs in place of a chaincode.
type script func(in cchost.Invocation, l cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error)

func (s script) Execute(_ context.Context, in cchost.Invocation, l cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	return s(in, l)
}

func setup(t *testing.T, run script) (*peertest.World, *fakeChannel, *endorser.Endorser) {
	w := peertest.New(t, peertest.Options{})
	ch := &fakeChannel{bundle: w.Bundle, state: statedb.New(), taken: map[validate.TxKey]bool{}}
	lookup := func(id string) endorser.Channel {
		if id == peertest.Channel {
			return ch
		}
		return nil
	}
	return w, ch, endorser.New(w.Signer("Org1MSP", "peer"), lookup, run, syscc.New("Org1MSP", nil), nil)
}

// TestWhatIsEndorsedIsValid: the stages that follow accept what the endorser made.
func TestWhatIsEndorsedIsValid(t *testing.T) {
	w, _, e := setup(t, func(in cchost.Invocation, l cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		assert.Equal(t, "kv", in.Chaincode)
		assert.Equal(t, "put", string(in.Input.Args[0]))
		assert.True(t, in.Defined("both"))
		assert.False(t, in.Defined("none"))
		_, err := l.GetState("kv", "a")
		require.NoError(t, err)
		it, err := l.Range("kv", "", "")
		require.NoError(t, err)
		_, _, err = it.Next(1)
		require.NoError(t, err)
		require.NoError(t, l.DelState("kv", "b"))
		event := &peerpb.ChaincodeEvent{ChaincodeId: "kv", TxId: in.TxID, EventName: "done"}
		return &peerpb.Response{Status: 200, Payload: []byte("ok")}, event, l.PutState("kv", "a", []byte("1"))
	})
	client := w.Signer("Org2MSP", "client")
	signed, id := w.Propose(peertest.Proposal{Client: client, Args: []string{"put"}, Transient: map[string][]byte{"secret": []byte("hush")}})
	answer, err := e.ProcessProposal(context.Background(), signed)
	require.NoError(t, err)
	assert.Equal(t, "ok", string(answer.Response.Payload))
	raw := w.Assemble(client, signed, answer)
	assert.NotContains(t, string(raw), "hush")
	tx, code := validate.Check(raw, w.Bundle)
	assert.Equal(t, peerpb.TxValidationCode_VALID, code)
	assert.Equal(t, id, tx.ID)
	assert.Equal(t, "done", tx.Event.EventName)
	assert.Equal(t, "1.0", tx.Version)
	assert.Len(t, tx.Set.Writes, 2)
}

func TestFailuresAreFabrics(t *testing.T) {
	refuse := func(cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		return &peerpb.Response{Status: 500, Message: "no such account"}, nil, nil
	}
	w, ch, e := setup(t, refuse)
	signed, id := w.Propose(peertest.Proposal{})
	answer, err := e.ProcessProposal(context.Background(), signed)
	require.NoError(t, err)
	assert.Equal(t, "no such account", answer.Response.Message)
	assert.NotEmpty(t, answer.Payload, "how a gateway knows that it was the chaincode")
	assert.Nil(t, answer.Endorsement)

	key, _ := validate.ParseTxID(id)
	ch.taken[key] = true
	_, err = e.ProcessProposal(context.Background(), signed)
	assert.EqualError(t, err, fmt.Sprintf("duplicate transaction found [%s]. Creator [%x]", id, w.Signer("Org1MSP", "client").Serialized()))

	ch.lost = errors.New("the ids are damaged")
	answer, err = e.ProcessProposal(context.Background(), signed)
	require.NoError(t, err, "another peer may do better, which a gateway does not try after a refusal")
	assert.Equal(t, "the ids are damaged", answer.Response.Message)
	assert.Nil(t, answer.Payload)
	ch.lost = nil

	signed, _ = w.Propose(peertest.Proposal{Chaincode: "none"})
	answer, err = e.ProcessProposal(context.Background(), signed)
	require.NoError(t, err)
	assert.EqualValues(t, 500, answer.Response.Status)
	assert.Contains(t, answer.Response.Message, "make sure the chaincode none has been successfully defined on channel mychannel")
	assert.Nil(t, answer.Payload)

	signed, _ = w.Propose(peertest.Proposal{Change: func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.ChannelId = "other" }})
	answer, err = e.ProcessProposal(context.Background(), signed)
	require.NoError(t, err)
	assert.Equal(t, "channel 'other' not found", answer.Response.Message)

	for said, told := range map[string]string{"it is gone": "it is gone", "it is \xff gone": "it is \ufffd gone"} {
		w, _, e = setup(t, func(cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
			return nil, nil, errors.New(said)
		})
		signed, _ = w.Propose(peertest.Proposal{})
		answer, err = e.ProcessProposal(context.Background(), signed)
		require.NoError(t, err)
		assert.EqualValues(t, 500, answer.Response.Status)
		assert.Contains(t, answer.Response.Message, told)
		assert.Nil(t, answer.Payload)
		_, err = proto.Marshal(answer)
		require.NoError(t, err)
	}
}

// TestRefusals spoils one thing of a proposal at a time; the chaincode must not run.
func TestRefusals(t *testing.T) {
	w, _, e := setup(t, func(cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		t.Error("a refused proposal was executed")
		return nil, nil, errors.New("refused")
	})
	foreign := peertest.New(t, peertest.Options{})
	header := func(f func(*commonpb.ChannelHeader, *commonpb.SignatureHeader)) peertest.Proposal {
		return peertest.Proposal{Change: f}
	}
	for name, c := range map[string]struct {
		proposal peertest.Proposal
		want     string
	}{
		"foreign client": {peertest.Proposal{Client: foreign.Signer("Org1MSP", "client")}, "access denied: channel [mychannel] creator org unknown, creator is malformed"},
		"an orderer":     {peertest.Proposal{Client: w.Signer("OrdererMSP", "orderer")}, "access denied"},
		"wrong type":     {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.Type = 1 }), "invalid header type CONFIG"},
		"epoch":          {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.Epoch = 2 }), "epoch is non-zero"},
		"no nonce":       {header(func(_ *commonpb.ChannelHeader, s *commonpb.SignatureHeader) { s.Nonce = nil }), "nonce is empty"},
		"long nonce": {header(func(h *commonpb.ChannelHeader, s *commonpb.SignatureHeader) {
			s.Nonce = make([]byte, 65)
			h.TxId = protoutil.TxID(s.Nonce, s.Creator)
		}), "nonce of 65 bytes, at most 64 are accepted"},
		"other id":         {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.TxId = "ab" }), "incorrectly computed txid 'ab'"},
		"before its time":  {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.Timestamp.Seconds = 1 }), "not valid at the proposal's time"},
		"without time":     {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.Timestamp = nil }), "not valid at the proposal's time"},
		"no chaincode":     {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.Extension = nil }), "ChaincodeId.Name is empty"},
		"channel of bytes": {header(func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.Extension = []byte{0xff} }), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			signed, _ := w.Propose(c.proposal)
			_, err := e.ProcessProposal(context.Background(), signed)
			assert.ErrorContains(t, err, c.want)
		})
	}
	signed, _ := w.Propose(peertest.Proposal{})
	signed.Signature[9]++
	_, err := e.ProcessProposal(context.Background(), signed)
	assert.ErrorContains(t, err, "access denied")
	_, err = e.ProcessProposal(context.Background(), nil)
	assert.ErrorContains(t, err, "empty proposal bytes")
}

func FuzzProcessProposal(f *testing.F) {
	w := peertest.New(f, peertest.Options{})
	signed, _ := w.Propose(peertest.Proposal{Args: []string{"a"}})
	f.Add(signed.ProposalBytes)
	ch := &fakeChannel{bundle: w.Bundle, state: statedb.New()}
	e := endorser.New(w.Signer("Org1MSP", "peer"), func(string) endorser.Channel { return ch }, script(nil), syscc.New("Org1MSP", nil), nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		// Whatever was changed, the signature is not of it.
		_, err := e.ProcessProposal(context.Background(), &peerpb.SignedProposal{ProposalBytes: data, Signature: []byte("x")})
		require.Error(t, err)
	})
}

// TestFailuresAreCounted: by kind, and a client's inventions share a series.
func TestFailuresAreCounted(t *testing.T) {
	w := peertest.New(t, peertest.Options{})
	ch := &fakeChannel{bundle: w.Bundle, state: statedb.New(), taken: map[validate.TxKey]bool{}}
	registry := prometheus.NewRegistry()
	no := script(func(cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		return &peerpb.Response{Status: 500, Message: "no"}, nil, nil
	})
	e := endorser.New(w.Signer("Org1MSP", "peer"), func(string) endorser.Channel { return ch }, no, syscc.New("Org1MSP", nil), endorser.NewMetrics(registry))
	again, id := w.Propose(peertest.Proposal{})
	key, _ := validate.ParseTxID(id)
	ch.taken[key] = true
	for _, p := range []peertest.Proposal{{}, {Chaincode: "invented"}, {Chaincode: "invented2"}, {Client: w.Signer("OrdererMSP", "orderer")}} {
		signed, _ := w.Propose(p)
		_, _ = e.ProcessProposal(context.Background(), signed) // counted, whatever it answers
	}
	_, err := e.ProcessProposal(context.Background(), again)
	require.Error(t, err)
	got := opstest.Series(t, registry)
	maps.DeleteFunc(got, func(series string, _ float64) bool { return !strings.Contains(series, "_failures{") })
	assert.Equal(t, map[string]float64{
		`endorser_endorsement_failures{chaincode="kv",chaincodeerror="true",channel="mychannel"}`: 1,
		`endorser_proposal_simulation_failures{chaincode="",channel="mychannel"}`:                 2,
		`endorser_proposal_acl_failures{chaincode="kv",channel="mychannel"}`:                      1,
		`endorser_duplicate_transaction_failures{chaincode="kv",channel="mychannel"}`:             1,
	}, got)
}

// TestAQueryIsAnsweredFromWhatMayBeTold, and what is to be ordered from what is newest.
func TestAQueryIsAnsweredFromWhatMayBeTold(t *testing.T) {
	w, ch, e := setup(t, func(_ cchost.Invocation, l cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		value, err := l.GetState("kv", "a")
		return &peerpb.Response{Status: 200, Payload: value}, nil, err
	})
	ch.told = statedb.New()
	ch.told.Apply(statedb.Version{Block: 1}, []statedb.Write{{Namespace: "kv", Key: "a", Value: []byte("told")}})
	ch.state.Apply(statedb.Version{Block: 2}, []statedb.Write{{Namespace: "kv", Key: "a", Value: []byte("newest")}})
	for want, ctx := range map[string]context.Context{
		"newest": context.Background(),
		"told":   query.Mark(context.Background()),
	} {
		signed, _ := w.Propose(peertest.Proposal{})
		response, err := e.ProcessProposal(ctx, signed)
		require.NoError(t, err)
		assert.Equal(t, want, string(response.Response.Payload))
	}
}

// TestAChaincodeGetsWhatIsSigned: a client can put fields of any length beside it, which nobody has counted.
func TestAChaincodeGetsWhatIsSigned(t *testing.T) {
	var got *peerpb.SignedProposal
	w, _, e := setup(t, func(in cchost.Invocation, _ cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		got = in.SignedProposal
		return &peerpb.Response{Status: 200}, nil, nil
	})
	signed, _ := w.Propose(peertest.Proposal{})
	padded := proto.Clone(signed).(*peerpb.SignedProposal)
	padded.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1))
	_, err := e.ProcessProposal(context.Background(), padded)
	require.NoError(t, err)
	assert.True(t, proto.Equal(signed, got))
}

// TestDecorationsAreThePeersToMake: as Fabric's endorser, which has a chaincode see none of the client's.
func TestDecorationsAreThePeersToMake(t *testing.T) {
	var got *peerpb.ChaincodeInput
	w, _, e := setup(t, func(in cchost.Invocation, _ cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		got = in.Input
		return &peerpb.Response{Status: 200}, nil, nil
	})
	client := w.Signer("Org1MSP", "client")
	signed, _ := w.Propose(peertest.Proposal{Client: client, Args: []string{"put"}, Decorations: map[string][]byte{"who": []byte("the bank")}})
	answer, err := e.ProcessProposal(context.Background(), signed)
	require.NoError(t, err)
	assert.Equal(t, "put", string(got.Args[0]))
	assert.Empty(t, got.Decorations)
	_, code := validate.Check(w.Assemble(client, signed, answer), w.Bundle)
	assert.Equal(t, peerpb.TxValidationCode_VALID, code, "the proposal's hash is that of what the client has sent")
}
