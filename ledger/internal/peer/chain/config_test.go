package chain

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// reconfigure is a configuration transaction that asks of kv what is asked of "both".
func reconfigure(t *testing.T, w *peertest.World, sequence uint64) []byte {
	cfg := proto.Clone(w.Bundle.Config).(*commonpb.Config)
	cfg.Sequence = sequence
	value := cfg.ChannelGroup.Groups["Application"].Values["Chaincodes"]
	var definitions streampb.ChaincodeDefinitions
	require.NoError(t, proto.Unmarshal(value.Value, &definitions))
	definitions.Chaincodes["kv"].EndorsementPolicy = definitions.Chaincodes["both"].EndorsementPolicy
	var err error
	value.Value, err = proto.Marshal(&definitions)
	require.NoError(t, err)
	data, err := proto.Marshal(&commonpb.ConfigEnvelope{Config: cfg})
	require.NoError(t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG, peertest.Channel, w.Signer("OrdererMSP", "orderer"), nil, data)
	require.NoError(t, err)
	raw, err := proto.Marshal(env)
	require.NoError(t, err)
	return raw
}

// TestAConfigurationTakesEffectAtOnePoint: the same transaction form is valid right
// before the change and fails right after it, whatever workers checked ahead, and still does
// so after a restart.
func TestAConfigurationTakesEffectAtOnePoint(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{Workers: 4})
	byOne := func() (raw []byte) { raw, _ = w.Make(peertest.Tx{}); return raw }
	const before, after = 40, 40
	for range before {
		r.add(byOne())
	}
	r.seal()
	r.add(reconfigure(t, w, 2)) // not the one that is due
	r.seal()
	r.add(reconfigure(t, w, 1))
	r.seal()
	for range after {
		r.add(byOne())
	}
	r.seal()
	r.settle()
	flags := func(n uint64) []byte {
		b, err := r.Block(n)
		require.NoError(t, err)
		return Flags(b)
	}
	assert.Equal(t, make([]byte, before), flags(1))
	assert.Equal(t, []byte{byte(peerpb.TxValidationCode_INVALID_CONFIG_TRANSACTION)}, flags(2))
	assert.Equal(t, []byte{0}, flags(3))
	for _, f := range flags(4) {
		assert.Equal(t, peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE, Code(f))
	}
	want := r.fingerprint()
	orders := r.orders
	require.NoError(t, r.stop())

	r = startRig(t, w, dir, Options{})
	r.orders = orders
	assert.Equal(t, want, r.fingerprint())
	assert.EqualValues(t, 1, r.Bundle().Sequence)
	raw, id := w.Make(peertest.Tx{})
	r.add(raw)
	assert.Equal(t, peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE, r.status(id).Code)
}
