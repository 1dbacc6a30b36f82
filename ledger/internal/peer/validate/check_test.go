package validate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

type signers = []*identity.SigningIdentity

// TestVerdicts spoils one thing at a time.
func TestVerdicts(t *testing.T) {
	w := peertest.New(t, peertest.Options{})
	foreign := peertest.New(t, peertest.Options{})
	peer1, peer2, client2 := w.Signer("Org1MSP", "peer"), w.Signer("Org2MSP", "peer"), w.Signer("Org2MSP", "client")
	writes := func(namespaces ...string) []byte {
		return w.Simulate(statedb.New().Snapshot(), func(s *rwset.Simulator) {
			for _, ns := range namespaces {
				require.NoError(t, s.Put(ns, "k", []byte("v")))
			}
		})
	}
	change := func(f func(*peertest.Parts)) peertest.Tx { return peertest.Tx{Change: f} }
	client1 := w.Signer("Org1MSP", "client")
	reads := w.Simulate(statedb.New().Snapshot(), func(s *rwset.Simulator) {
		_, err := s.Get("both", "k")
		require.NoError(t, errors.Join(err, s.Put("kv", "k", []byte("v"))))
	})
	for name, c := range map[string]struct {
		tx   peertest.Tx
		want string
	}{
		"plain":                {peertest.Tx{}, "VALID"},
		"writes":               {peertest.Tx{Results: writes("kv")}, "VALID"},
		"the other org":        {peertest.Tx{Client: client2, Endorsers: signers{peer2}}, "VALID"},
		"event":                {peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: "e"}}, "VALID"},
		"both endorse":         {peertest.Tx{Chaincode: "both", Endorsers: signers{peer1, peer2}}, "VALID"},
		"only one endorses":    {peertest.Tx{Chaincode: "both", Endorsers: signers{peer1}}, "ENDORSEMENT_POLICY_FAILURE"},
		"one endorses twice":   {peertest.Tx{Chaincode: "both", Endorsers: signers{peer1, peer1}}, "ENDORSEMENT_POLICY_FAILURE"},
		"nobody endorses":      {peertest.Tx{Endorsers: signers{}}, "ENDORSEMENT_POLICY_FAILURE"},
		"a client endorses":    {peertest.Tx{Endorsers: signers{client2}}, "ENDORSEMENT_POLICY_FAILURE"},
		"a foreigner endorses": {peertest.Tx{Endorsers: signers{foreign.Signer("Org1MSP", "peer")}}, "ENDORSEMENT_POLICY_FAILURE"},
		"a foreigner beside":   {peertest.Tx{Endorsers: signers{foreign.Signer("Org1MSP", "peer"), peer1}}, "VALID"},
		"too many endorsements": {change(func(p *peertest.Parts) {
			p.Endorse = func(e []*peerpb.Endorsement) []*peerpb.Endorsement {
				for range 64 {
					e = append(e, e[0])
				}
				return e
			}
		}), "ENDORSEMENT_POLICY_FAILURE"},
		"endorsement of something else": {change(func(p *peertest.Parts) {
			p.Endorse = func(e []*peerpb.Endorsement) []*peerpb.Endorsement {
				sig, err := peer1.Sign([]byte("else"))
				require.NoError(t, err)
				e[0].Signature = sig
				return e
			}
		}), "ENDORSEMENT_POLICY_FAILURE"},
		"writes where only both may":   {peertest.Tx{Results: writes("kv", "both")}, "ENDORSEMENT_POLICY_FAILURE"},
		"writes where both do":         {peertest.Tx{Results: writes("kv", "both"), Endorsers: signers{peer1, peer2}}, "VALID"},
		"reads where only both may":    {peertest.Tx{Results: reads}, "VALID"},
		"writes to no chaincode":       {peertest.Tx{Results: writes("kv", "none")}, "ILLEGAL_WRITESET"},
		"unknown chaincode":            {peertest.Tx{Chaincode: "none"}, "INVALID_CHAINCODE"},
		"foreign client":               {peertest.Tx{Client: foreign.Signer("Org1MSP", "client")}, "BAD_CREATOR_SIGNATURE"},
		"changed after signing":        {change(func(p *peertest.Parts) { p.Envelope = func(e *commonpb.Envelope) { e.Signature[10]++ } }), "BAD_CREATOR_SIGNATURE"},
		"no time":                      {change(func(p *peertest.Parts) { p.Channel.Timestamp = nil }), "BAD_COMMON_HEADER"},
		"before the certificate began": {change(func(p *peertest.Parts) { p.Channel.Timestamp.Seconds = 1000 }), "BAD_CREATOR_SIGNATURE"},
		"before all time":              {change(func(p *peertest.Parts) { p.Channel.Timestamp = timestamppb.New(time.Time{}) }), "BAD_CREATOR_SIGNATURE"},
		"other channel":                {change(func(p *peertest.Parts) { p.Channel.ChannelId = "other" }), "TARGET_CHAIN_NOT_FOUND"},
		"other type":                   {change(func(p *peertest.Parts) { p.Channel.Type = 0 }), "UNKNOWN_TX_TYPE"},
		"no nonce":                     {peertest.Tx{Nonce: []byte{}}, "BAD_COMMON_HEADER"},
		"epoch":                        {change(func(p *peertest.Parts) { p.Channel.Epoch = 1 }), "BAD_COMMON_HEADER"},
		"id of somebody else":          {change(func(p *peertest.Parts) { p.Channel.TxId = anotherID(p.Channel.TxId) }), "BAD_PROPOSAL_TXID"},
		"id in capitals":               {change(func(p *peertest.Parts) { p.Channel.TxId = "AB" + p.Channel.TxId[2:] }), "BAD_PROPOSAL_TXID"},
		"another's header of the action": {peertest.Tx{Client: client1, Change: func(p *peertest.Parts) {
			p.Envelope = func(e *commonpb.Envelope) {
				e.Payload = headed(t, e.Payload, &commonpb.SignatureHeader{Creator: client2.Serialized(), Nonce: p.Header.Nonce})
				var err error
				e.Signature, err = client1.Sign(e.Payload)
				require.NoError(t, err)
			}
		}}, "INVALID_ENDORSER_TRANSACTION"},
		"no action":                      {change(func(p *peertest.Parts) { p.Actions = 0 }), "INVALID_ENDORSER_TRANSACTION"},
		"two actions":                    {change(func(p *peertest.Parts) { p.Actions = 2 }), "INVALID_ENDORSER_TRANSACTION"},
		"other input than endorsed":      {change(func(p *peertest.Parts) { p.Input = []byte("\x0a\x01x") }), "INVALID_ENDORSER_TRANSACTION"},
		"other chaincode in the answer":  {change(func(p *peertest.Parts) { p.Action.ChaincodeId.Name = "both" }), "INVALID_CHAINCODE"},
		"no chaincode in the header":     {change(func(p *peertest.Parts) { p.Channel.Extension = nil }), "BAD_HEADER_EXTENSION"},
		"answer does not parse":          {change(func(p *peertest.Parts) { p.Response.Extension = []byte{0xff} }), "BAD_RESPONSE_PAYLOAD"},
		"read/write set does not parse":  {peertest.Tx{Results: []byte{0xff}}, "BAD_RWSET"},
		"event of another transaction":   {change(func(p *peertest.Parts) { p.Action.Events = []byte("\x0a\x02kv\x12\x01x") }), "INVALID_OTHER_REASON"},
		"bad form by a forger stays his": {peertest.Tx{Client: foreign.Signer("Org1MSP", "client"), Results: []byte{0xff}}, "BAD_CREATOR_SIGNATURE"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, id := w.Make(c.tx)
			tx, code := validate.Check(raw, w.Bundle)
			assert.Equal(t, c.want, code.String())
			if validate.ClaimsID(code) {
				assert.Equal(t, id, tx.ID)
				assert.NotZero(t, tx.Key)
			}
			if c.want == "VALID" {
				assert.NotNil(t, tx.Set)
				assert.Equal(t, c.tx.Event != nil, tx.Event != nil)
			}
		})
	}
	for name, raw := range map[string][]byte{"BAD_PAYLOAD": {0xff}, "NIL_ENVELOPE": nil, "BAD_COMMON_HEADER": {0x0a, 2, 0x0a, 0}} {
		_, code := validate.Check(raw, w.Bundle)
		assert.Equal(t, name, code.String())
	}
}

// headed gives a transaction's payload with another header of its action.
func headed(t *testing.T, payload []byte, header *commonpb.SignatureHeader) []byte {
	var whole commonpb.Payload
	require.NoError(t, proto.Unmarshal(payload, &whole))
	var body peerpb.Transaction
	require.NoError(t, proto.Unmarshal(whole.Data, &body))
	var err error
	body.Actions[0].Header, err = proto.Marshal(header)
	require.NoError(t, err)
	whole.Data, err = proto.Marshal(&body)
	require.NoError(t, err)
	payload, err = proto.Marshal(&whole)
	require.NoError(t, err)
	return payload
}

// anotherID changes the first digit, whichever it is.
func anotherID(id string) string {
	if id[0] == '0' {
		return "1" + id[1:]
	}
	return "0" + id[1:]
}

func FuzzCheck(f *testing.F) {
	w := peertest.New(f, peertest.Options{})
	raw, _ := w.Make(peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: "e"}})
	f.Add(raw)
	f.Add(w.Genesis.Data.Data[0])
	f.Fuzz(func(t *testing.T, data []byte) {
		tx, code := validate.Check(data, w.Bundle)
		if code == peerpb.TxValidationCode_VALID && tx.Type != commonpb.HeaderType_CONFIG && tx.Set == nil {
			t.Fatal("valid without a read/write set")
		}
		// The pipeline takes what has a type.
		kind := protoutil.HeaderType(data)
		if kind >= 0 && !tx.WellFormed {
			t.Fatal("not well-formed, and the pipeline takes it")
		}
		if kind >= 0 && tx.Message != nil && tx.Type != commonpb.HeaderType(kind) {
			t.Fatal("a configuration transaction that the pipeline would not wait for")
		}
	})
}
