package protoview_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/protoview"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

func id() *peerpb.ChaincodeID { return &peerpb.ChaincodeID{Path: "p", Name: "kv", Version: "1.0"} }

// samples have all fields of the types that Read knows.
var samples = []proto.Message{
	&commonpb.Envelope{Payload: []byte("payload"), Signature: []byte("signature")},
	&commonpb.Payload{Header: &commonpb.Header{ChannelHeader: []byte("c"), SignatureHeader: []byte("s")}, Data: []byte("data")},
	&commonpb.Header{ChannelHeader: []byte("channel"), SignatureHeader: []byte("signature")},
	&commonpb.ChannelHeader{
		Type: -3, Version: 1, Timestamp: &timestamppb.Timestamp{Seconds: -1, Nanos: 7}, ChannelId: "mychannel", TxId: "tx", Epoch: 1 << 60,
		Extension: []byte("extension"), TlsCertHash: []byte("hash"),
	},
	&commonpb.SignatureHeader{Creator: []byte("creator"), Nonce: []byte("nonce")},
	&peerpb.Proposal{Header: []byte("header"), Payload: []byte("payload"), Extension: []byte("extension")},
	&peerpb.ChaincodeProposalPayload{Input: []byte("input")},
	&peerpb.ChaincodeProposalPayload{Input: []byte("input"), TransientMap: map[string][]byte{"a": []byte("b")}},
	&peerpb.ChaincodeInvocationSpec{ChaincodeSpec: &peerpb.ChaincodeSpec{
		Type: 9, ChaincodeId: id(), Timeout: -1, Input: &peerpb.ChaincodeInput{Args: [][]byte{[]byte("put"), {}, []byte("key")}, IsInit: true},
	}},
	&peerpb.ChaincodeInvocationSpec{ChaincodeSpec: &peerpb.ChaincodeSpec{Input: &peerpb.ChaincodeInput{Decorations: map[string][]byte{"a": {}}}}},
	&peerpb.ChaincodeHeaderExtension{ChaincodeId: id()},
	&peerpb.Transaction{Actions: []*peerpb.TransactionAction{{Header: []byte("h"), Payload: []byte("p")}, {}}},
	&peerpb.ChaincodeActionPayload{
		ChaincodeProposalPayload: []byte("proposal"),
		Action: &peerpb.ChaincodeEndorsedAction{
			ProposalResponsePayload: []byte("response"), Endorsements: []*peerpb.Endorsement{{Endorser: []byte("e"), Signature: []byte("s")}, {}},
		},
	},
	&peerpb.ProposalResponsePayload{ProposalHash: []byte("hash"), Extension: []byte("extension")},
	&peerpb.ChaincodeAction{
		Results: []byte("results"), Events: []byte("events"), ChaincodeId: id(), Response: &peerpb.Response{Status: 200, Message: "ok", Payload: []byte("p")},
	},
	&rwsetpb.TxReadWriteSet{DataModel: 5, NsRwset: []*rwsetpb.NsReadWriteSet{{Namespace: "kv", Rwset: []byte("set")}, {}}},
	&streampb.LogEntry{Txs: [][]byte{[]byte("one"), {}, []byte("two")}, Cut: true, CutBlock: 77},
}

func fresh(m proto.Message) proto.Message { return m.ProtoReflect().New().Interface() }

// agrees reads raw both ways. What is read without the library must be what the library reads.
func agrees(t *testing.T, raw []byte, kind proto.Message) (read bool) {
	t.Helper()
	viewed, copied := fresh(kind), fresh(kind)
	if read = protoview.Read(raw, viewed); !read {
		return false
	}
	require.NoError(t, proto.Unmarshal(raw, copied), "%x", raw)
	require.True(t, proto.Equal(copied, viewed), "%x:\n%v\n%v", raw, copied, viewed)
	return true
}

func TestTheUsualFormIsReadAsTheLibraryReadsIt(t *testing.T) {
	for _, sample := range samples {
		raw, err := proto.Marshal(sample)
		require.NoError(t, err)
		hasMap := false
		switch m := sample.(type) {
		case *peerpb.ChaincodeProposalPayload:
			hasMap = m.TransientMap != nil
		case *peerpb.ChaincodeInvocationSpec:
			hasMap = m.ChaincodeSpec.Input.Decorations != nil
		}
		assert.Equal(t, !hasMap, agrees(t, raw, sample), "%T", sample)
		assert.True(t, agrees(t, nil, sample), "an empty %T", sample)
	}
}

// TestWhateverIsReadIsWhatTheLibraryReads changes samples at random: lengths, types, numbers, order, texts.
func TestWhateverIsReadIsWhatTheLibraryReads(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	read := 0
	for range 60_000 {
		kind := samples[random.IntN(len(samples))]
		raw, err := proto.Marshal(samples[random.IntN(len(samples))])
		require.NoError(t, err)
		if random.IntN(3) > 0 {
			raw, err = proto.Marshal(kind)
			require.NoError(t, err)
		}
		for range random.IntN(3) {
			switch at := random.IntN(len(raw) + 1); {
			case random.IntN(4) == 0:
				raw = append(raw[:at:at], append(append([]byte{}, raw[:random.IntN(len(raw)+1)]...), raw[at:]...)...) // some of it twice
			case at < len(raw):
				raw[at] = byte(random.IntN(256))
			}
		}
		if agrees(t, raw, kind) {
			read++
		}
	}
	assert.Greater(t, read, 10_000)
}

func FuzzRead(f *testing.F) {
	for i, sample := range samples {
		raw, err := proto.Marshal(sample)
		require.NoError(f, err)
		f.Add(byte(i), raw)
	}
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) { agrees(t, raw, samples[int(kind)%len(samples)]) })
}

func TestNothingIsCopiedAndAppendingSpoilsNothing(t *testing.T) {
	raw, err := proto.Marshal(&commonpb.Envelope{Payload: []byte("payload"), Signature: []byte("signature")})
	require.NoError(t, err)
	before := string(raw)
	var env commonpb.Envelope
	require.True(t, protoview.Read(raw, &env))
	assert.Same(t, &raw[2], &env.Payload[0])
	_ = append(env.Payload, "overwritten"...)
	assert.Equal(t, before, string(raw))
}

func TestOtherTypesAreLeftToTheLibrary(t *testing.T) {
	assert.False(t, protoview.Read(nil, &peerpb.ChaincodeMessage{}))
	for _, sample := range samples {
		assert.False(t, protoview.Read([]byte{15<<3 | 2, 0}, fresh(sample)), "an unknown field of %T", sample)
	}
}
