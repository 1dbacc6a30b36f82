package channelconfig

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// patched is the configuration that a patch makes.
func (c *channel) patched(p Patch) *commonpb.Config {
	c.t.Helper()
	config, err := p.Apply(c.bundle.Config)
	require.NoError(c.t, err)
	return config
}

// rotated is the configuration with a fresh identity of a consenter. Fabric's own tools leave the policy as it is.
func (c *channel) rotated(g Genesis, consenter int, leaves bool) *commonpb.Config {
	c.t.Helper()
	tls := string(g.Consenters[consenter].ServerTlsCert)
	config := c.patched(Patch{Consenters: []ConsenterPatch{{
		Address: ConsenterAddress(g.Consenters[consenter]), Rotate: true, TLSCert: tls, Identity: issued(c.t, c.world["OrdererMSP"], "next"),
	}}})
	if leaves {
		config.ChannelGroup.Groups[ordererGroup].Policies[policyBlocks] = c.bundle.Config.ChannelGroup.Groups[ordererGroup].Policies[policyBlocks]
	}
	return config
}

// with goes on from a configuration, as one that an earlier version of this program has let through.
func (c *channel) with(config *commonpb.Config) *channel {
	c.t.Helper()
	b, err := FromConfig("mychannel", config)
	require.NoError(c.t, err)
	return &channel{world: c.world, t: c.t, bundle: b, signers: c.signers}
}

func policies(path, rule string) Patch { return Patch{Policies: map[string]string{path: rule}} }

// TestTheOrdererOfAnUpdateCanSealWhatFollows: peers take no block after it otherwise.
func TestTheOrdererOfAnUpdateCanSealWhatFollows(t *testing.T) {
	c := newChannel(t)
	own := c.signer("OrdererMSP", "orderer").Serialized()
	require.NoError(t, c.bundle.CheckSealers(c.patched(upgrade), own))
	require.NoError(t, c.bundle.CheckSealers(c.patched(policies(BlockValidation, "OR('OrdererMSP.orderer')")), own))
	err := c.bundle.CheckSealers(c.patched(policies(BlockValidation, "OR('Org1MSP.peer')")), own)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "/Channel/Orderer/BlockValidation: orderer of OrdererMSP, the orderer that would order it, does not satisfy it: no later block")
	require.ErrorContains(t, c.bundle.CheckSealers(c.patched(upgrade), []byte("nobody")), "the orderer that would order it: ")
}

// TestEachQuorumOfAnUpdatesConsentersCanSealWhatFollows, and each of them make a configuration that mends it.
func TestEachQuorumOfAnUpdatesConsentersCanSealWhatFollows(t *testing.T) {
	for _, kind := range []string{BFT, Zyzzyva} {
		c, g := consentersChannel(t, kind, 4)
		for _, p := range []Patch{upgrade, policies(BlockValidation, "ANY Writers"), policies(BlockValidation, "OR('OrdererMSP.orderer')")} {
			require.NoError(t, c.bundle.CheckSealers(c.patched(p), nil))
		}
		err := c.bundle.CheckSealers(c.patched(policies(BlockValidation, "OR('Org1MSP.peer')")), nil)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "/Channel/Orderer/BlockValidation: a policy that each 3 of the 4 consenters satisfy is accepted, and 4 do not satisfy this one")
		err = c.bundle.CheckSealers(c.patched(policies(ordererWriters, "OR('Org1MSP.peer')")), nil)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "/Channel/Orderer/Writers: a policy that each consenter satisfies is accepted, and 127.0.0.1:7050 does not satisfy this one")

		require.NoError(t, c.bundle.CheckSealers(c.rotated(g, 0, false), nil))
		require.ErrorContains(t, c.bundle.CheckSealers(c.rotated(g, 0, true), nil), "each 3 of the 4 consenters satisfy is accepted, and 3 do not")
	}
}

// TestAChannelThatIsHalfSealedIsMended: what is so already does not hold up other updates, and gets no worse.
func TestAChannelThatIsHalfSealedIsMended(t *testing.T) {
	whole, g := consentersChannel(t, BFT, 4)
	c := whole.with(whole.rotated(g, 0, true))
	require.NoError(t, c.bundle.CheckSealers(c.patched(upgrade), nil))
	require.ErrorContains(t, c.bundle.CheckSealers(c.rotated(g, 1, true), nil), "each 3 of the 4 consenters satisfy is accepted, and 4 do not")
	require.NoError(t, c.bundle.CheckSealers(c.rotated(g, 1, false), nil))

	c = whole.with(whole.patched(policies(ordererWriters, "OR('Org1MSP.peer')")))
	require.NoError(t, c.bundle.CheckSealers(c.patched(upgrade), nil))
	require.ErrorContains(t, c.bundle.CheckSealers(c.rotated(g, 2, false), nil), "127.0.0.1:7052 does not")
	tls := issued(t, c.world["OrdererMSP"], "orderer2", "localhost")
	config := c.patched(Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:7052", Rotate: true, TLSCert: tls}}})
	require.NoError(t, c.bundle.CheckSealers(config, nil), "orderer2 keeps the certificate that it signs blocks with")
}

// TestEachQuorumOfManyConsentersIsLookedAt: one that is not named makes one that fails, however many there are.
func TestEachQuorumOfManyConsentersIsLookedAt(t *testing.T) {
	for _, n := range []int{5, 7, MaxBFT} {
		c, g := consentersChannel(t, BFT, n)
		require.NoError(t, c.bundle.CheckSealers(c.patched(upgrade), nil))
		require.ErrorContains(t, c.bundle.CheckSealers(c.rotated(g, n/2, true), nil), BlockValidation)
	}
}
