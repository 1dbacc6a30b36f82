package gateway

import (
	"context"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// TestAnOlderConfigurationTakesNoOrdererBack: calls that run while the configuration changes come with either.
func TestAnOlderConfigurationTakesNoOrdererBack(t *testing.T) {
	older := *peertest.New(t, peertest.Options{Orderers: []string{"127.0.0.1:1"}}).Bundle
	newer := older
	newer.Sequence++
	newer.Orderer.Addresses = []string{"127.0.0.1:1", "127.0.0.1:2"}
	cast := newBroadcaster(newDialer(false, nil, nil), Config{BroadcastTimeout: time.Minute})
	defer cast.close()
	before := cast.cluster(&older)
	after := cast.cluster(&newer)
	assert.Same(t, before.orderers[0], after.orderers[0], "it stays")
	assert.Len(t, after.orderers, 2)
	assert.Same(t, after, cast.cluster(&older))
	assert.Same(t, after, cast.cluster(&newer))
}

// TestAnOrderersOrganisationIsItsMSP, whatever the configuration calls its group: errors name it so to clients.
func TestAnOrderersOrganisationIsItsMSP(t *testing.T) {
	config := proto.Clone(peertest.New(t, peertest.Options{Orderers: []string{"127.0.0.1:1"}}).Bundle.Config).(*commonpb.Config)
	groups := config.ChannelGroup.Groups["Orderer"].Groups
	groups["OrdererOrg"] = groups["OrdererMSP"]
	delete(groups, "OrdererMSP")
	bundle, err := channelconfig.FromConfig(peertest.Channel, config)
	require.NoError(t, err)
	cast := newBroadcaster(newDialer(false, nil, nil), Config{BroadcastTimeout: time.Minute})
	defer cast.close()
	assert.Equal(t, "OrdererMSP", cast.cluster(bundle).orderers[0].mspID)
}

// TestOnlyConsentersAnswersCount, by the certificates that the channel names for them.
func TestOnlyConsentersAnswersCount(t *testing.T) {
	bundle := *peertest.New(t, peertest.Options{Liars: 1, Orderers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"}}).Bundle
	cast := newBroadcaster(newDialer(false, nil, nil), Config{BroadcastTimeout: time.Minute})
	defer cast.close()
	before := cast.cluster(&bundle)
	assert.Len(t, before.orderers, 5)
	assert.Equal(t, []int{0, 1, 2, 3}, before.consenters())

	rotated := bundle
	rotated.Sequence++
	rotated.Orderer.Consenters = slices.Clone(bundle.Orderer.Consenters)
	der := []byte("another certificate")
	rotated.Orderer.Consenters[1] = &etcdraftpb.Consenter{
		Host: "127.0.0.1", Port: 2, ServerTlsCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
	after := cast.cluster(&rotated)
	assert.Same(t, before.orderers[0], after.orderers[0])
	assert.NotSame(t, before.orderers[1], after.orderers[1], "the stream under the old certificate is left")
	assert.Equal(t, der, after.orderers[1].certificate)
}

// ends fails the test where a call never returns, and gives its error.
func ends(t *testing.T, call func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
		return nil
	}
}

// TestAnOrdererThatOpensNoStreamIsLeft after the timeout, by who opens the stream and by who waits for the turn.
func TestAnOrdererThatOpensNoStreamIsLeft(t *testing.T) {
	bundle := peertest.New(t, peertest.Options{Orderers: []string{peertest.Says(t, peertest.NoStreams)}}).Bundle
	cast := newBroadcaster(newDialer(false, nil, nil), Config{BroadcastTimeout: 100 * time.Millisecond})
	defer cast.close()
	o := cast.cluster(bundle).orderers[0]
	broadcast := func() error {
		_, err := o.broadcast(t.Context(), &commonpb.Envelope{})
		return err
	}
	assert.ErrorIs(t, ends(t, broadcast), errSilent)
	o.turn <- struct{}{} // of one that does not come back
	assert.ErrorIs(t, ends(t, broadcast), errSilent)
	<-o.turn
	assert.ErrorIs(t, ends(t, broadcast), errSilent, "the turn is given back")
}

// TestACallerMayLeaveAnOrdererThatOpensNoStream, before the timeout.
func TestACallerMayLeaveAnOrdererThatOpensNoStream(t *testing.T) {
	bundle := peertest.New(t, peertest.Options{Orderers: []string{peertest.Says(t, peertest.NoStreams)}}).Bundle
	cast := newBroadcaster(newDialer(false, nil, nil), Config{BroadcastTimeout: time.Hour})
	defer cast.close()
	o := cast.cluster(bundle).orderers[0]
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := ends(t, func() error {
		_, err := o.broadcast(ctx, &commonpb.Envelope{})
		return err
	})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Empty(t, o.turn)
}
