package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/process"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// Init makes the folder. It refuses one that is not empty: keys are never
// overwritten. network.json comes last: where it is, the folder is whole.
func Init(o Options) (*network.File, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	chaincodes, err := o.chaincodes()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("--dir %s holds %s: a new or an empty folder is accepted", o.Dir, entries[0].Name())
	}
	if o.LikeFabric {
		o.WireGap = 0
	} else if o.Processors == 0 {
		// Chaincode processes are left out: they do little, and only while their peer waits.
		o.Processors = process.FairProcessors(runtime.NumCPU(), o.Orderers+o.Orgs*o.PeersPerOrg)
	}
	if o.Brokers == 0 {
		o.Brokers = consenters[o.Consenter].brokers
	}
	if o.WireGap < 0 {
		o.WireGap = 0
		if channelconfig.WaitsForBlocks(modes[o.Mode], int(o.MaxMessageCount)) {
			o.WireGap = blockWireGap
		}
	}
	b := &builder{options: o, plan: newPlan(o, chaincodes), folder: folder(o.Dir), file: &network.File{
		Channels: o.Channels, Mode: o.Mode, Consenter: o.Consenter, TLS: !o.NoTLS, WireGap: o.WireGap.String(), TLSCA: map[string]string{},
	}}
	if last := b.plan.nextPort - 1; last > 65535 {
		return nil, fmt.Errorf("--base-port %d: this network needs ports up to %d, 65535 is the last", o.BasePort, last)
	}
	for _, step := range []func() error{b.orderers, b.peers, func() error { return b.channels(chaincodes) }, b.nodes} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("init %s: %w", o.Dir, err)
		}
	}
	return b.file, b.file.Save(o.Dir)
}

type builder struct {
	options      Options
	plan         *plan
	folder       folder
	file         *network.File
	ordererOrg   channelconfig.GenesisOrg
	applications []channelconfig.GenesisOrg
	consenters   []*etcdraftpb.Consenter
	identities   []channelconfig.GenesisIdentity // of the consenters
}

func (b *builder) organisation(msp, domain, home string) (*organisation, error) {
	org, err := newOrganisation(b.folder, msp, domain, home)
	if err == nil {
		b.file.TLSCA[msp] = org.tlsCertFile()
	}
	return org, err
}

func (b *builder) orderers() error {
	org, err := b.organisation(ordererMSP, ordererOrg, "crypto/ordererOrganizations/"+ordererOrg)
	if err != nil {
		return err
	}
	for _, n := range b.plan.orderers {
		tlsCert, err := org.issue(n.home, n.fqdn, "orderer", n.Address)
		if err != nil {
			return err
		}
		known, port, err := net.SplitHostPort(n.Address)
		if err != nil {
			return err
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return err
		}
		b.consenters = append(b.consenters, &etcdraftpb.Consenter{Host: known, Port: uint32(number), ClientTlsCert: tlsCert, ServerTlsCert: tlsCert})
		signs, err := b.folder.read(certFile(n.home, n.fqdn))
		if err != nil {
			return err
		}
		b.identities = append(b.identities, channelconfig.GenesisIdentity{MSPID: ordererMSP, Cert: signs})
	}
	for _, n := range b.plan.sequencer {
		if _, err := org.issueTLS(n.home, n.fqdn, n.Address); err != nil {
			return err
		}
	}
	if _, err := org.user("Admin", "admin"); err != nil {
		return err
	}
	b.ordererOrg = channelconfig.GenesisOrg{MSPID: ordererMSP, RootCert: org.ids.CertPEM(), TLSCert: org.tls.CertPEM(), Endpoints: addresses(b.plan.orderers)}
	return nil
}

func (b *builder) peers() error {
	for i, nodes := range b.plan.peers {
		org, err := b.organisation(orgMSP(i), orgDomain(i), "crypto/peerOrganizations/"+orgDomain(i))
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if _, err := org.issue(n.home, n.fqdn, "peer", n.Address); err != nil {
				return err
			}
		}
		if err := b.chaincodes(org); err != nil {
			return err
		}
		if _, err := org.user("Admin", "admin"); err != nil {
			return err
		}
		client, err := org.user("User1", "client")
		if err != nil {
			return err
		}
		b.file.Clients = append(b.file.Clients, client)
		b.applications = append(b.applications, channelconfig.GenesisOrg{MSPID: orgMSP(i), RootCert: org.ids.CertPEM(), TLSCert: org.tls.CertPEM(), Endpoints: addresses(nodes)})
	}
	return nil
}

// chaincodes makes what an organisation's peers and chaincodes know each other by, where they do:
// a certificate of the chaincode's own, and Fabric's connection.json, which names the peer's.
func (b *builder) chaincodes(org *organisation) error {
	if !b.options.ChaincodeTLS {
		return nil
	}
	for _, n := range b.plan.chaincodes {
		if n.MSPID != org.msp {
			continue
		}
		if _, err := org.issueTLS(n.home, n.Name, n.Address); err != nil {
			return err
		}
		cert, err := b.folder.read(path.Join(n.peer.home, "tls/server.crt"))
		if err != nil {
			return err
		}
		key, err := b.folder.read(path.Join(n.peer.home, "tls/server.key"))
		if err != nil {
			return err
		}
		raw, err := json.MarshalIndent(nodeconfig.Connection{
			Address: n.Address, DialTimeout: "10s", TLSRequired: true, ClientAuthRequired: true,
			ClientCert: string(cert), ClientKey: string(key), RootCert: string(org.tls.CertPEM()),
		}, "", "  ")
		if err != nil {
			return err
		}
		if err := b.folder.writeSecret(path.Join(n.home, "connection.json"), raw); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) channels(chaincodes []channelconfig.GenesisChaincode) error {
	o := b.options
	for _, name := range o.Channels {
		block, err := channelconfig.NewGenesis(channelconfig.Genesis{
			ChannelID: name, ConsensusType: consenters[o.Consenter].consensusType, Consenters: b.consenters, Identities: b.identities, KafkaBrokers: addresses(b.plan.brokers), Sequencer: strings.Join(addresses(b.plan.sequencer), ""),
			RaftOptions: &etcdraftpb.Options{
				TickInterval: o.RaftTick.String(), ElectionTick: o.ElectionTicks, HeartbeatTick: heartbeatTicks,
				MaxInflightBlocks: 5, SnapshotIntervalSize: o.SnapshotBytes,
			},
			MaxMessageCount: o.MaxMessageCount, AbsoluteMaxBytes: o.AbsoluteMaxBytes, PreferredMaxBytes: o.PreferredMaxBytes,
			BatchTimeout: o.BatchTimeout, Mode: modes[o.Mode], VirtualBlockTxs: o.VirtualBlockTxs, VirtualBlockInterval: o.VirtualBlockInterval,
			OrdererOrgs: []channelconfig.GenesisOrg{b.ordererOrg}, ApplicationOrgs: b.applications, Chaincodes: chaincodes,
		})
		if err != nil {
			return err
		}
		raw, err := proto.Marshal(block)
		if err != nil {
			return err
		}
		if err := b.folder.write(genesisFile(name), raw); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) nodes() error {
	for _, dir := range []string{"nodes", "log", "data"} {
		if err := os.MkdirAll(filepath.Join(b.options.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	for _, n := range b.plan.nodes() {
		b.file.Nodes = append(b.file.Nodes, n.Node)
		if n.cfg == nil {
			continue
		}
		if err := n.cfg.Save(filepath.Join(b.options.Dir, filepath.FromSlash(n.Config))); err != nil {
			return err
		}
	}
	return nil
}
