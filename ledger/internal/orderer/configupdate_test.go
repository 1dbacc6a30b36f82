package orderer

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// update is an update of the genesis configuration, signed by an organisation's administrator.
func (c *testCluster) update(patch channelconfig.Patch, org string) *commonpb.Envelope {
	c.t.Helper()
	return c.updateTo(patch.Apply, org)
}

func (c *testCluster) updateTo(change func(*commonpb.Config) (*commonpb.Config, error), org string) *commonpb.Envelope {
	c.t.Helper()
	_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(c.t, err)
	return c.updateFrom(bundle.Config, change, org)
}

// updateFrom is an update of a later configuration.
func (c *testCluster) updateFrom(from *commonpb.Config, change func(*commonpb.Config) (*commonpb.Config, error), org string) *commonpb.Envelope {
	c.t.Helper()
	users := filepath.Join(c.dir, "crypto", org, "users")
	load := func(name string) string {
		found, err := filepath.Glob(filepath.Join(users, "Admin@*", "msp", name))
		require.NoError(c.t, err)
		require.Len(c.t, found, 1)
		return found[0]
	}
	msp := map[bool]string{true: "OrdererMSP", false: "Org1MSP"}[org[:7] == "orderer"]
	admin, err := identity.LoadSigner(msp, load("signcerts/*.pem"), load("keystore/*"))
	require.NoError(c.t, err)
	to, err := change(from)
	require.NoError(c.t, err)
	update, err := channelconfig.NewUpdate(ch, from, to)
	require.NoError(c.t, err)
	require.NoError(c.t, channelconfig.SignUpdate(update, admin))
	data, err := proto.Marshal(update)
	require.NoError(c.t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG_UPDATE, ch, admin, nil, data)
	require.NoError(c.t, err)
	return env
}

const (
	org1Admin     = "peerOrganizations/org1.example.com"
	ordererAdmins = "ordererOrganizations/example.com"
)

func chaincode(version string) channelconfig.Patch {
	return channelconfig.Patch{Chaincodes: map[string]channelconfig.ChaincodePatch{"kv": {Version: version, Policy: "OR('Org1MSP.peer')"}}}
}

// TestConfigurationsChangeAtOnePoint sends competing updates to all orderers at once, amid
// transactions: the same one wins everywhere, in a block of its own, and lasts over a restart.
func TestConfigurationsChangeAtOnePoint(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	stops := make([]func(), 3)
	for i := range 3 {
		stops[i] = c.start(i)
	}
	c.order(c.message(ch, "before"))
	refused, err := c.ask(1, c.update(chaincode("1.0"), ordererAdmins))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, refused.Status, refused.Info)

	l, stop := startLoad(c, 3)
	l.waitFor(t, 20)
	var wg sync.WaitGroup
	for i := range 3 {
		update := c.update(chaincode(fmt.Sprintf("%d.0", i+2)), org1Admin)
		wg.Go(func() { _, _ = c.ask(i, update) }) // at most one comes into force
	}
	wg.Wait()
	l.waitFor(t, 20)
	stop()
	level(t, c)
	again, err := c.ask(0, c.update(chaincode("9.0"), org1Admin))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, again.Status, again.Info)

	// Its orderers' part is not the peers' organisations' to change, and the other way about.
	r, err := c.ask(2, c.update(channelconfig.Patch{MaxMessageCount: 7}, ordererAdmins))
	require.NoError(t, err)
	require.Equal(t, commonpb.Status_SUCCESS, r.Status, r.Info)
	last := level(t, c)
	for i := range 3 {
		stops[i]()
	}
	l.check(t, c, last)
	var versions []string
	for i := range 3 {
		node := c.open(i)
		bundle := node.channels[ch].Bundle()
		assert.EqualValues(t, 2, bundle.Sequence)
		assert.Equal(t, 7, bundle.Orderer.MaxMessageCount)
		versions = append(versions, bundle.Chaincodes["kv"].Version)
		require.NoError(t, node.close())
	}
	assert.Equal(t, []string{versions[0], versions[0], versions[0]}, versions)
}

// largest sets how large a transaction may be.
func largest(bytes uint32) func(*commonpb.Config) (*commonpb.Config, error) {
	return func(from *commonpb.Config) (*commonpb.Config, error) {
		to := proto.Clone(from).(*commonpb.Config)
		size, err := proto.Marshal(&ordererpb.BatchSize{MaxMessageCount: 500, AbsoluteMaxBytes: bytes, PreferredMaxBytes: 1 << 20})
		to.ChannelGroup.Groups["Orderer"].Values["BatchSize"].Value = size
		return to, err
	}
}

// TestTransactionsMayBecomeLarger: after the restart of the orderers that an update of absolute_max_bytes asks for. Before it
// they refuse what their connections do not carry, also what one has let in that was restarted earlier: nothing that comes
// after such an entry would get to the others.
func TestTransactionsMayBecomeLarger(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.AbsoluteMaxBytes, o.PreferredMaxBytes = 1<<20, 1<<20 })
	node, stop := c.startNode(0)
	c.order(c.updateTo(largest(16<<20), ordererAdmins))
	c.order(c.message(ch, strings.Repeat("x", 1<<20-(4<<10))))
	larger := c.message(ch, strings.Repeat("x", 1<<20))
	r, err := c.ask(0, larger)
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, r.Status)
	assert.Contains(t, r.Info, "exceeds maximum allowed 1048576 bytes until this orderer is restarted")
	var refused []commonpb.Status
	node.channels[ch].forwarded(&ordererpb.SubmitRequest{Channel: ch, LastValidationSeq: 1, Payload: larger},
		func(r *ordererpb.SubmitResponse) { refused = append(refused, r.Status) })
	assert.Equal(t, []commonpb.Status{commonpb.Status_BAD_REQUEST}, refused)
	stop()
	c.start(0)
	c.order(larger)
	c.order(c.message(ch, strings.Repeat("x", 8<<20)))
}

// TestTransactionsMayBecomeSmaller: restarted orderers still give away what was ordered before, by all ways.
func TestTransactionsMayBecomeSmaller(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	stop := []func(){c.start(0), c.start(1)}
	large := strings.Repeat("x", 9<<20)
	c.order(c.message(ch, large))
	c.order(c.updateTo(largest(1<<20), ordererAdmins))
	for i := range stop {
		stop[i]()
		c.start(i)
	}
	c.order(c.message(ch, "after"))
	assert.Equal(t, []string{large}, c.texts(0, ch, &streampb.Position{Block: 1}, 1), "to a peer that is behind")
	blocks, err := c.blocks(0, ch, 1, 1)
	require.NoError(t, err, "to an orderer that is behind")
	assert.Len(t, blocks, 1)
	behind, _ := c.startNode(2)
	require.Eventually(t, func() bool { return behind.channels[ch].Bundle().Sequence == 1 }, patience, 10*time.Millisecond, "as entries of the log")
}

// TestAnOrdererThatIsBehindTakesWhatBecameLarger, be it later than the configuration that it starts with says.
func TestAnOrdererThatIsBehindTakesWhatBecameLarger(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.AbsoluteMaxBytes, o.PreferredMaxBytes = 1<<20, 1<<20 })
	first, _ := c.startNode(0)
	c.start(1)
	behind := c.open(2)
	defer func() { require.NoError(t, behind.close()) }()
	c.order(c.updateTo(largest(16<<20), ordererAdmins))
	c.order(c.message(ch, strings.Repeat("x", 9<<20)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, behind.channels[ch].CatchUp(ctx, first.channels[ch].Height()))
}

// TestUpdatesThatWouldBeTheLastAreRefusedAtTheDoor: an element that names no policy could not be changed again.
func TestUpdatesThatWouldBeTheLastAreRefusedAtTheDoor(t *testing.T) {
	c := newCluster(t, solo)
	c.start(0)
	c.order(c.message(ch, "before"))
	update := func(modPolicy string) *commonpb.Envelope {
		return c.updateTo(func(from *commonpb.Config) (*commonpb.Config, error) {
			to := proto.Clone(from).(*commonpb.Config)
			to.ChannelGroup.Groups["Orderer"].Values["BatchSize"].ModPolicy = modPolicy
			return to, nil
		}, ordererAdmins)
	}
	r, err := c.ask(0, update(""))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, r.Status)
	assert.Contains(t, r.Info, `mod_policy "" of /Channel/Orderer/BatchSize: the name of a policy`)
	r, err = c.ask(0, update("/Channel/Orderer/Admins"))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_SUCCESS, r.Status, r.Info)
}

// TestNoUpdateLeavesBlocksThatNobodyCanSeal: it would be the last that peers take.
func TestNoUpdateLeavesBlocksThatNobodyCanSeal(t *testing.T) {
	c := newCluster(t, solo)
	c.start(0)
	c.order(c.message(ch, "before"))
	blocks := func(rule string) *commonpb.Envelope {
		return c.update(channelconfig.Patch{Policies: map[string]string{channelconfig.BlockValidation: rule}}, ordererAdmins)
	}
	r, err := c.ask(0, blocks("OR('Org1MSP.peer')"))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, r.Status)
	assert.Contains(t, r.Info, "of OrdererMSP, the orderer that would order it, does not satisfy it: no later block would be valid")
	r, err = c.ask(0, blocks("OR('OrdererMSP.orderer')"))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_SUCCESS, r.Status, r.Info)
}

// TestWhoDoesNotOrderLeavesItToConsentersWhetherTheyCanSeal: a client asks the next orderer then.
func TestWhoDoesNotOrderLeavesItToConsentersWhetherTheyCanSeal(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	node := c.openFollower(2)
	defer func() { require.NoError(t, node.close()) }()
	policies := map[string]string{channelconfig.BlockValidation: "OR('Org1MSP.peer')"}
	err := <-node.accept(c.update(channelconfig.Patch{Policies: policies}, ordererAdmins)).result
	require.ErrorIs(t, err, errNotConsenter)
	assert.Equal(t, commonpb.Status_SERVICE_UNAVAILABLE, statusOf(err))
}

// TestAnOrganisationKeepsItsMSPsID: under another one its group would stand for somebody else.
func TestAnOrganisationKeepsItsMSPsID(t *testing.T) {
	c := newCluster(t, solo)
	c.start(0)
	c.order(c.message(ch, "before"))
	r, err := c.ask(0, c.updateTo(func(from *commonpb.Config) (*commonpb.Config, error) {
		to := proto.Clone(from).(*commonpb.Config)
		value := to.ChannelGroup.Groups["Application"].Groups["Org1MSP"].Values["MSP"]
		var wire msppb.MSPConfig
		var msp msppb.FabricMSPConfig
		require.NoError(t, proto.Unmarshal(value.Value, &wire))
		require.NoError(t, proto.Unmarshal(wire.Config, &msp))
		msp.Name = "OtherMSP"
		var err error
		wire.Config, err = proto.Marshal(&msp)
		require.NoError(t, err)
		value.Value, err = proto.Marshal(&wire)
		return to, err
	}, org1Admin))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, r.Status)
	assert.Contains(t, r.Info, `/Channel/Application/Org1MSP: its MSP id "Org1MSP" stays as it is`)
}
