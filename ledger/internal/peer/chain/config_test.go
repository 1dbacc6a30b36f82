package chain

import (
	"bytes"
	"context"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// reconfigure is a configuration transaction that asks of kv what is asked of "both"; those
// whose administrators sign decide whether it counts.
func reconfigure(t *testing.T, w *peertest.World, sequence uint64, admins ...string) []byte {
	t.Helper()
	return reconfigureTo(t, w, sequence, channelconfig.Patch{
		Chaincodes: map[string]channelconfig.ChaincodePatch{"kv": {Version: "2.0", Policy: "AND('Org1MSP.peer','Org2MSP.peer')"}},
	}, admins...)
}

// reconfigureTo is one with any change.
func reconfigureTo(t *testing.T, w *peertest.World, sequence uint64, patch channelconfig.Patch, admins ...string) []byte {
	t.Helper()
	to, err := patch.Apply(w.Bundle.Config)
	require.NoError(t, err)
	update, err := channelconfig.NewUpdate(peertest.Channel, w.Bundle.Config, to)
	require.NoError(t, err)
	for _, msp := range admins {
		require.NoError(t, channelconfig.SignUpdate(update, w.Signer(msp, "admin")))
	}
	data, err := proto.Marshal(update)
	require.NoError(t, err)
	signed, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG_UPDATE, peertest.Channel, w.Signer("Org1MSP", "admin"), nil, data)
	require.NoError(t, err)
	full := proto.Clone(update).(*commonpb.ConfigUpdateEnvelope)
	full.Signatures = nil
	for _, msp := range []string{"Org1MSP", "Org2MSP"} {
		require.NoError(t, channelconfig.SignUpdate(full, w.Signer(msp, "admin")))
	}
	msg, err := protoutil.OpenEnvelope(signed)
	require.NoError(t, err)
	msg.Data, err = proto.Marshal(full)
	require.NoError(t, err)
	cfg, err := w.Bundle.Updated(msg, time.Now())
	require.NoError(t, err)
	cfg.Sequence = sequence
	env, err := channelconfig.NewConfigTransaction(cfg, signed, peertest.Channel, w.Signer("OrdererMSP", "orderer"))
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
	r.add(reconfigure(t, w, 2, "Org1MSP", "Org2MSP")) // not the one that is due
	r.seal()
	r.add(reconfigure(t, w, 1, "Org1MSP")) // not by the majority
	r.seal()
	r.add(reconfigure(t, w, 1, "Org1MSP", "Org2MSP"))
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
	invalid := byte(peerpb.TxValidationCode_INVALID_CONFIG_TRANSACTION)
	assert.Equal(t, []byte{invalid}, flags(2))
	assert.Equal(t, []byte{invalid}, flags(3))
	assert.Equal(t, []byte{0}, flags(4))
	assert.Equal(t, bytes.Repeat([]byte{byte(peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE)}, after), flags(5))
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

// TestARevocationTakesEffectAtOnePoint: a client's transactions count before it and not after it, a peer's
// endorsements neither, and a replay says the same.
func TestARevocationTakesEffectAtOnePoint(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{Workers: 4})
	pemOf := func(s *identity.SigningIdentity) []byte {
		id, err := w.Bundle.MSP.Deserialize(s.Serialized())
		require.NoError(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Cert.Raw})
	}
	lists := map[string][]string{}
	for msp, unit := range map[string]string{"Org1MSP": "client", "Org2MSP": "peer"} {
		list, err := w.CAs[msp].Revoke(pemOf(w.Signer(msp, unit)))
		require.NoError(t, err)
		lists[msp] = []string{string(list)}
	}
	txs := func() {
		for _, creator := range []string{"Org1MSP", "Org2MSP"} {
			for _, endorser := range []string{"Org1MSP", "Org2MSP"} {
				raw, _ := w.Make(peertest.Tx{Client: w.Signer(creator, "client"), Endorsers: []*identity.SigningIdentity{w.Signer(endorser, "peer")}})
				r.add(raw)
			}
		}
		r.seal()
	}
	txs()
	r.add(reconfigureTo(t, w, 1, channelconfig.Patch{RevocationLists: lists}, "Org1MSP", "Org2MSP"))
	r.seal()
	txs()
	r.settle()
	want := r.fingerprint()
	const creator, policy = byte(peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE), byte(peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE)
	for n, flags := range [][]byte{1: {0, 0, 0, 0}, 2: {0}, 3: {creator, creator, 0, policy}} {
		block, err := r.Block(uint64(n))
		require.NoError(t, err)
		if n > 0 {
			assert.Equal(t, flags, Flags(block), n)
		}
	}
	require.NoError(t, r.stop())
	assert.Equal(t, want, startRig(t, w, withoutCheckpoints(t, dir), Options{}).fingerprint())
}

// TestAConfigurationIsWaitedForByTheNextStream: the one that brought it ends before it is applied, as where its orderer
// dies. What follows is judged by it all the same.
func TestAConfigurationIsWaitedForByTheNextStream(t *testing.T) {
	w := streamWorld(t)
	c, err := Open(t.TempDir(), w.Genesis, Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	added := make(chan error, 1)
	config := reconfigure(t, w, 1, "Org1MSP", "Org2MSP")
	go func() { added <- c.Add(ctx, config) }()
	require.Eventually(t, func() bool { return len(c.pipeline.jobs) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-added, context.Canceled)
	assert.Equal(t, Position{Block: 1, Tx: 1}, c.Position())

	ctx, cancel = context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	header, metadata := w.NewOrderer().Seal([][]byte{config})
	require.NoError(t, c.Seal(ctx, header, metadata))
	raw, id := w.Make(peertest.Tx{})
	require.NoError(t, c.Add(ctx, raw))
	s, err := c.Status(ctx, id)
	require.NoError(t, err)
	assert.Equal(t, peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE, s.Code)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, c.Close())
}

// TestWhatIsNotQueuedTakesNoRoom: a stream ends while the pipeline is full.
func TestWhatIsNotQueuedTakesNoRoom(t *testing.T) {
	w := streamWorld(t)
	c, err := Open(t.TempDir(), w.Genesis, Options{})
	require.NoError(t, err)
	raw, _ := w.Make(peertest.Tx{})
	orders, queued := w.NewOrderer(), 0
	for block := [][]byte(nil); len(c.pipeline.jobs) < queueItems; {
		if len(block) == 50 {
			header, metadata := orders.Seal(block)
			require.NoError(t, c.Seal(context.Background(), header, metadata))
			block, queued = nil, queued+proto.Size(header)+proto.Size(metadata)
			continue
		}
		require.NoError(t, c.Add(context.Background(), raw))
		block, queued = append(block, raw), queued+len(raw)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		require.ErrorIs(t, c.Add(ctx, raw), context.DeadlineExceeded)
		cancel()
	}
	assert.True(t, c.pipeline.bytes.TryAcquire(queueBytes-int64(queued)))
	require.NoError(t, c.Close())
}
