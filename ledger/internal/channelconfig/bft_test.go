package channelconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/smartbftpb"
)

// bftWorld is a channel with n consenters, and who they are.
func bftWorld(t *testing.T, n int) (Genesis, []*identity.SigningIdentity) {
	w, g := newWorld(t)
	g.ConsensusType, g.Consenters = BFT, nil
	var signers []*identity.SigningIdentity
	for i := range n {
		cert, key, err := w["OrdererMSP"].Issue(ca.Request{CommonName: fmt.Sprint("orderer", i), Unit: "orderer"})
		require.NoError(t, err)
		signer, err := identity.NewSigner("OrdererMSP", cert, key)
		require.NoError(t, err)
		signers = append(signers, signer)
		g.Consenters = append(g.Consenters, &etcdraftpb.Consenter{Host: "127.0.0.1", Port: uint32(7050 + i)})
		g.Identities = append(g.Identities, GenesisIdentity{MSPID: "OrdererMSP", Cert: cert})
	}
	return g, signers
}

// TestBlocksNeedAQuorumOfConsenters, whom the policy names one by one: no other orderer of the organisation counts, and
// none counts twice.
func TestBlocksNeedAQuorumOfConsenters(t *testing.T) {
	for n, quorum := range map[int]int{4: 3, 5: 4, 6: 4, 7: 5, 10: 7} {
		assert.Equal(t, quorum, Quorum(n))
		g, signers := bftWorld(t, n)
		block, err := NewGenesis(g)
		require.NoError(t, err)
		b, err := FromBlock(block)
		require.NoError(t, err)
		require.Len(t, b.Orderer.Consenters, n)
		assert.Equal(t, BFTOptions{ViewChangeTimeout: 2 * time.Second, BatchTxs: 512, BatchBytes: 1 << 20}, b.Orderer.BFT)
		var ids []*identity.Identity
		for i, signer := range signers {
			id, err := b.MSP.Deserialize(signer.Serialized())
			require.NoError(t, err)
			ids = append(ids, id)
			assert.Equal(t, signer.Serialized(), b.Orderer.Identities[b.Orderer.Numbers[i]])
		}
		policy := b.Policy(BlockValidation)
		assert.True(t, policy.Evaluate(ids[:quorum]))
		assert.True(t, policy.Evaluate(ids[n-quorum:]))
		assert.False(t, policy.Evaluate(ids[:quorum-1]))
		assert.False(t, policy.Evaluate(append(append([]*identity.Identity{}, ids[:quorum-1]...), ids[0])))
	}
}

// consentersChannel is a channel of n consenters, with certificates of their organisation.
func consentersChannel(t *testing.T, kind string, n int) (*channel, Genesis) {
	t.Helper()
	w, g := newWorld(t)
	g.ConsensusType, g.Consenters = kind, nil
	for i := range n {
		name := fmt.Sprint("orderer", i)
		tls := []byte(issued(t, w["OrdererMSP"], name, "localhost"))
		g.Consenters = append(g.Consenters, &etcdraftpb.Consenter{
			Host: "127.0.0.1", Port: uint32(7050 + i), ClientTlsCert: tls, ServerTlsCert: tls,
		})
		g.Identities = append(g.Identities, GenesisIdentity{MSPID: "OrdererMSP", Cert: []byte(issued(t, w["OrdererMSP"], name))})
	}
	block, err := NewGenesis(g)
	require.NoError(t, err)
	b, err := FromBlock(block)
	require.NoError(t, err)
	return &channel{world: w, t: t, bundle: b, signers: map[string]*identity.SigningIdentity{}}, g
}

// rolled is what becomes of an update of the orderers' organisation.
func (c *channel) rolled(change func(*msppb.FabricMSPConfig), at time.Time) error {
	to := proto.Clone(c.bundle.Config).(*commonpb.Config)
	editMSP(c.t, to.ChannelGroup.Groups[ordererGroup].Groups["OrdererMSP"], change)
	update, err := NewUpdate("mychannel", c.bundle.Config, to)
	require.NoError(c.t, err)
	_, err = c.bundle.Updated(c.wrap(update, c.admins("OrdererMSP")...), at)
	return err
}

func issued(t *testing.T, authority *ca.Authority, name string, hosts ...string) string {
	t.Helper()
	cert, _, err := authority.Issue(ca.Request{CommonName: name, Unit: "orderer", Hosts: hosts})
	require.NoError(t, err)
	return string(cert)
}

// TestIdentitiesChangeOneAtATime, to those that the channel's authorities have issued: nobody could sign a block otherwise.
func TestIdentitiesChangeOneAtATime(t *testing.T) {
	for _, kind := range []string{BFT, Zyzzyva} {
		t.Run(kind, func(t *testing.T) {
			c, g := consentersChannel(t, kind, 4)
			patched := func(signs ...string) error {
				var patch Patch
				for i, identity := range signs {
					patch.Consenters = append(patch.Consenters, ConsenterPatch{
						Address: fmt.Sprint("127.0.0.1:", 7050+i), Rotate: true, TLSCert: string(g.Consenters[i].ServerTlsCert), Identity: identity,
					})
				}
				_, err := c.bundle.Updated(c.update(patch, c.admins("OrdererMSP")...), time.Now())
				return err
			}
			fresh := func() string { return issued(t, c.world["OrdererMSP"], "next") }
			require.NoError(t, patched(fresh()))
			require.ErrorContains(t, patched(fresh(), fresh(), fresh(), fresh()), "one at a time is accepted")
			require.ErrorContains(t, patched(issued(t, c.world["Org1MSP"], "next")), "consenter 127.0.0.1:7050: its identity")
			require.ErrorContains(t, patched(string(g.Identities[1].Cert)), "its identity: it is another consenter's")
			again := string(g.Identities[1].Cert) + "\n" // the same certificate, in other words
			require.ErrorContains(t, patched(again), "its identity: it is another consenter's")
		})
	}
}

// TestConsentersOutliveTheirAuthority: an update after which a consenter's signatures would not count is refused.
func TestConsentersOutliveTheirAuthority(t *testing.T) {
	c, g := consentersChannel(t, BFT, 4)
	own := c.world["OrdererMSP"]
	next, err := ca.New("next", "OrdererMSP")
	require.NoError(t, err)
	rolled := func(roots ...[]byte) error {
		return c.rolled(func(msp *msppb.FabricMSPConfig) { msp.RootCerts = roots }, time.Now())
	}
	require.ErrorContains(t, rolled(next.CertPEM()), "consenter 127.0.0.1:7050: its identity: certificate is not of its organisation")
	require.NoError(t, rolled(own.CertPEM(), next.CertPEM()))

	list, err := own.Revoke(g.Identities[2].Cert)
	require.NoError(t, err)
	revoked := Patch{RevocationLists: map[string][]string{"OrdererMSP": {string(list)}}}
	_, err = c.bundle.Updated(c.update(revoked, c.admins("OrdererMSP")...), time.Now())
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "consenter 127.0.0.1:7052: its identity")
	revoked.Consenters = []ConsenterPatch{{Address: "127.0.0.1:7052", Remove: true}}
	_, err = c.bundle.Updated(c.update(revoked, c.admins("OrdererMSP")...), time.Now())
	require.NoError(t, err, "one that leaves may be revoked")

	// Two consenters have ceased to count, which was accepted once. One after the other leaves.
	both, err := own.Revoke(g.Identities[1].Cert, g.Identities[2].Cert)
	require.NoError(t, err)
	editMSP(t, c.bundle.Config.ChannelGroup.Groups[ordererGroup].Groups["OrdererMSP"], func(msp *msppb.FabricMSPConfig) {
		msp.RevocationList = [][]byte{both}
	})
	c.bundle, err = FromConfig("mychannel", c.bundle.Config)
	require.NoError(t, err)
	c.become(c.update(Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:7052", Remove: true}}}, c.admins("OrdererMSP")...))
}

func TestMalformedConsentersAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(orderer *commonpb.ConfigGroup, all *commonpb.Orderers){
		"no consenters":   func(_ *commonpb.ConfigGroup, all *commonpb.Orderers) { all.ConsenterMapping = nil },
		"the same number": func(_ *commonpb.ConfigGroup, all *commonpb.Orderers) { all.ConsenterMapping[1].Id = 1 },
		"number 0":        func(_ *commonpb.ConfigGroup, all *commonpb.Orderers) { all.ConsenterMapping[0].Id = 0 },
		"no options": func(g *commonpb.ConfigGroup, _ *commonpb.Orderers) {
			set(g, keyConsensusType, &ordererpb.ConsensusType{Type: BFT})
		},
		"empty batches": func(g *commonpb.ConfigGroup, _ *commonpb.Orderers) {
			set(g, keyConsensusType, &ordererpb.ConsensusType{Type: BFT, Metadata: mustMarshal(&smartbftpb.Options{ViewChangeTimeout: "1s"})})
		},
	} {
		g, _ := bftWorld(t, 4)
		root, err := g.channelGroup()
		require.NoError(t, err)
		orderer := root.Groups[ordererGroup]
		var all commonpb.Orderers
		require.NoError(t, get(orderer, keyOrderers, &all))
		_, err = FromConfig("mychannel", &commonpb.Config{ChannelGroup: root})
		require.NoError(t, err)
		spoil(orderer, &all)
		set(orderer, keyOrderers, &all)
		_, err = FromConfig("mychannel", &commonpb.Config{ChannelGroup: root})
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

// TestMoreConsentersThanACertificateHoldsAreRefused: their certificates could not be read, and nothing would be ordered.
func TestMoreConsentersThanACertificateHoldsAreRefused(t *testing.T) {
	for _, kind := range []string{BFT, Zyzzyva} {
		g, _ := bftWorld(t, MaxBFT+1)
		g.ConsensusType = kind
		_, err := NewGenesis(g)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "Orderers: 65 consenters: 1 to 64 are accepted")

		c, _ := consentersChannel(t, kind, MaxBFT)
		tls, identity := issued(t, c.world["OrdererMSP"], "next", "localhost"), issued(t, c.world["OrdererMSP"], "next")
		one := Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:9000", TLSCert: tls, Identity: identity}}}
		_, err = c.bundle.Updated(c.update(one, c.admins("OrdererMSP")...), time.Now())
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "Orderers: 65 consenters: 1 to 64 are accepted")
	}
}

// TestConsentersComeAndGo, and the policy for blocks with them.
func TestConsentersComeAndGo(t *testing.T) {
	g, signers := bftWorld(t, 5)
	fifth := g
	g.Consenters, g.Identities = g.Consenters[:4], g.Identities[:4]
	root, err := g.channelGroup()
	require.NoError(t, err)
	config := &commonpb.Config{ChannelGroup: root}
	add := Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:7054", TLSCert: "c", Identity: string(fifth.Identities[4].Cert)}}}
	grown, err := add.Apply(config)
	require.NoError(t, err)
	b, err := FromConfig("mychannel", grown)
	require.NoError(t, err)
	assert.Equal(t, []uint32{1, 2, 3, 4, 5}, b.Orderer.Numbers)
	assert.Equal(t, signers[4].Serialized(), b.Orderer.Identities[5])
	var ids []*identity.Identity
	for _, s := range signers {
		id, err := b.MSP.Deserialize(s.Serialized())
		require.NoError(t, err)
		ids = append(ids, id)
	}
	assert.True(t, b.Policy(BlockValidation).Evaluate(ids[1:]))
	assert.False(t, b.Policy(BlockValidation).Evaluate(ids[2:]), "three of five")

	remove := Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:7051", Remove: true}}}
	shrunk, err := remove.Apply(grown)
	require.NoError(t, err)
	b, err = FromConfig("mychannel", shrunk)
	require.NoError(t, err)
	assert.Equal(t, []uint32{1, 3, 4, 5}, b.Orderer.Numbers)
	assert.True(t, b.Policy(BlockValidation).Evaluate(ids[2:]))
	assert.False(t, b.Policy(BlockValidation).Evaluate(ids[:3]), "the second one has left")

	for _, wrong := range []ConsenterPatch{
		{Address: "127.0.0.1:7050", TLSCert: "c", Identity: "i"}, {Address: "127.0.0.1:7099", Remove: true}, {Address: "127.0.0.1:7098", TLSCert: "c"},
	} {
		_, err := (&Patch{Consenters: []ConsenterPatch{wrong}}).Apply(config)
		require.ErrorIs(t, err, ErrInvalid, wrong.Address)
	}
}

// TestConsentersOutliveTheirTLSAuthority: an update after which consenters would not reach each other is refused.
func TestConsentersOutliveTheirTLSAuthority(t *testing.T) {
	for _, kind := range []string{Raft, BFT} {
		for _, test := range []struct {
			name    string
			now     time.Duration // from today
			stays   string        // whose authority does
			refused string
		}{
			{"both stay", 0, "client server", ""},
			{"the servers' goes", 0, "client", "TLS server certificate: x509"},
			{"the clients' goes", 0, "server", "TLS client certificate: x509"},
			{"none stays", 0, "", "TLS client certificate: x509"},
			{"both stay, expired", expiredBy, "client server", ""},
			{"expired", expiredBy, "client", "TLS server certificate: x509"},
		} {
			t.Run(kind+" "+test.name, func(t *testing.T) {
				c, server, client := twoAuthorities(t, kind)
				next, err := ca.New("next", "OrdererMSP")
				require.NoError(t, err)
				roots := [][]byte{next.CertPEM()}
				for _, side := range strings.Fields(test.stays) {
					roots = append(roots, map[string]*ca.Authority{"client": client, "server": server}[side].CertPEM())
				}
				err = c.rolled(func(msp *msppb.FabricMSPConfig) { msp.TlsRootCerts = roots }, time.Now().Add(test.now))
				if test.refused == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrInvalid)
				require.ErrorContains(t, err, "consenter 127.0.0.1:7050: its "+test.refused)
			})
		}
	}
}

// expiredBy is beyond the validity of the consenters' certificates of twoAuthorities.
const expiredBy = 48 * time.Hour

// twoAuthorities is a channel whose consenters have certificates of one authority as servers and of another one as
// clients, valid for a day.
func twoAuthorities(t *testing.T, kind string) (c *channel, server, client *ca.Authority) {
	t.Helper()
	w, g := newWorld(t)
	server = w["OrdererMSP"]
	client, err := ca.New("clients", "OrdererMSP")
	require.NoError(t, err)
	g.ConsensusType, g.Consenters = kind, nil
	short := func(authority *ca.Authority) []byte {
		cert, _, err := authority.Issue(ca.Request{
			CommonName: "orderer", Hosts: []string{"localhost"}, NotAfter: time.Now().Add(expiredBy / 2),
		})
		require.NoError(t, err)
		return cert
	}
	for i := range 4 {
		g.Consenters = append(g.Consenters, &etcdraftpb.Consenter{
			Host: "127.0.0.1", Port: uint32(7050 + i), ClientTlsCert: short(client), ServerTlsCert: short(server),
		})
		name := fmt.Sprint("orderer", i)
		g.Identities = append(g.Identities, GenesisIdentity{MSPID: "OrdererMSP", Cert: []byte(issued(t, server, name))})
	}
	root, err := g.channelGroup()
	require.NoError(t, err)
	editMSP(t, root.Groups[ordererGroup].Groups["OrdererMSP"], func(msp *msppb.FabricMSPConfig) {
		msp.TlsRootCerts = append(msp.TlsRootCerts, client.CertPEM())
	})
	b, err := FromConfig("mychannel", &commonpb.Config{ChannelGroup: root})
	require.NoError(t, err)
	return &channel{world: w, t: t, bundle: b, signers: map[string]*identity.SigningIdentity{}}, server, client
}
