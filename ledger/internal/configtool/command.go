package configtool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// options are what all subcommands take.
type options struct {
	network string
	channel string
	signers []string
	out     string
	timeout time.Duration
}

// Command is `qioi-ledger config`.
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and change a channel's configuration while the network runs",
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.network, "network", "network.json", "`FILE` that init wrote")
	flags.StringVar(&o.channel, "channel", "", "channel (default: the network's first)")
	flags.StringSliceVar(&o.signers, "signers", nil, "organisations whose administrators sign; the first one also sends (default: all whose keys are in the network's folder)")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "time to get it into force")
	cmd.AddCommand(o.show(), o.apply(), o.upgrade(), o.addOrg(), o.revoke(), o.addConsenter(), o.removeConsenter(), o.rotateConsenter(), o.sign(), o.send())
	return cmd
}

func (o *options) show() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print what is in force, as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, c, err := o.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			now, err := c.fetch(ctx)
			if err != nil {
				return err
			}
			return describe(cmd.OutOrStdout(), c.channel, now)
		},
	}
}

func (o *options) apply() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply PATCH.yaml", Short: "Make an update of a YAML or JSON patch, sign it and bring it about", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := readPatch(args[0])
			if err != nil {
				return err
			}
			return o.change(cmd, patch)
		},
	}
	o.outFlag(cmd)
	return cmd
}

// readPatch reads a patch; an empty file changes nothing.
func readPatch(file string) (channelconfig.Patch, error) {
	var patch channelconfig.Patch
	text, err := os.ReadFile(file)
	if err != nil {
		return patch, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&patch); err != nil && !errors.Is(err, io.EOF) {
		return patch, fmt.Errorf("%s: %w (chaincodes, policies, organisations, revocation_lists, consenters, batch_timeout and max_message_count are accepted)", file, err)
	}
	if err := nodeconfig.CheckRest(decoder); err != nil {
		return patch, fmt.Errorf("%s: %w", file, err)
	}
	return patch, nil
}

func (o *options) upgrade() *cobra.Command {
	var change channelconfig.ChaincodePatch
	cmd := &cobra.Command{
		Use: "upgrade-chaincode NAME", Short: "Give a chaincode a new version or policy, or define a new one", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd, channelconfig.Patch{Chaincodes: map[string]channelconfig.ChaincodePatch{args[0]: change}})
		},
	}
	cmd.Flags().StringVar(&change.Version, "version", "", "new version (default: as it is)")
	cmd.Flags().StringVar(&change.Policy, "policy", "", "new endorsement policy, for example AND('Org1MSP.peer','Org2MSP.peer') (default: as it is)")
	o.outFlag(cmd)
	return cmd
}

func (o *options) addOrg() *cobra.Command {
	var mspID, dir string
	var peers []string
	cmd := &cobra.Command{
		Use: "add-org --msp-id ID --msp DIR", Short: "Let another organisation use the channel", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			patch, err := readOrganisation(mspID, dir, peers)
			if err != nil {
				return err
			}
			return o.change(cmd, patch)
		},
	}
	cmd.Flags().StringVar(&mspID, "msp-id", "", "the organisation's MSP id")
	cmd.Flags().StringVar(&dir, "msp", "", "its folder msp, with cacerts and tlscacerts (and intermediatecerts, tlsintermediatecerts, crls)")
	cmd.Flags().StringSliceVar(&peers, "peer", nil, "host:port of a peer; repeat for several")
	_ = cmd.MarkFlagRequired("msp-id") // the flags exist: the lines above made them
	_ = cmd.MarkFlagRequired("msp")
	o.outFlag(cmd)
	return cmd
}

func (o *options) revoke() *cobra.Command {
	var mspID, list string
	cmd := &cobra.Command{
		Use: "revoke --msp-id ID {--crl FILE | CERTIFICATE.pem...}", Short: "Let certificates count no more: a list that their authority has signed, or one made with its key in the network's folder",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (list == "") == (len(args) == 0) {
				return errors.New("--crl or certificates: one of them is accepted")
			}
			text, err := []byte(nil), error(nil)
			if list != "" {
				text, err = os.ReadFile(list)
			} else {
				text, err = o.revocationList(mspID, args)
			}
			if err != nil {
				return err
			}
			return o.change(cmd, channelconfig.Patch{RevocationLists: map[string][]string{mspID: {string(text)}}})
		},
	}
	cmd.Flags().StringVar(&mspID, "msp-id", "", "MSP id of the certificates' organisation")
	cmd.Flags().StringVar(&list, "crl", "", "certificate revocation list, PEM")
	_ = cmd.MarkFlagRequired("msp-id") // it exists: the line above made it
	o.outFlag(cmd)
	return cmd
}

// revocationList signs a list of certificates with the key of their authority.
func (o *options) revocationList(mspID string, files []string) ([]byte, error) {
	f, err := openFolder(o.network)
	if err != nil {
		return nil, err
	}
	authority, err := f.authority(mspID)
	if err != nil {
		return nil, err
	}
	var certs [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		certs = append(certs, text)
	}
	return authority.Revoke(certs...)
}

func (o *options) outFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.out, "out", "", "write the signed update to this file for others to sign, and do not send it")
}

func (o *options) sign() *cobra.Command {
	return o.withUpdate("sign UPDATE", "Add the --signers' signatures to an update that `--out` wrote",
		func(_ *cobra.Command, path string, update *commonpb.ConfigUpdateEnvelope, signers []*identity.SigningIdentity, _ *client) error {
			return writeUpdate(path, update, signers)
		})
}

func (o *options) send() *cobra.Command {
	return o.withUpdate("send UPDATE", "Bring an update about that `--out` wrote and enough have signed",
		func(cmd *cobra.Command, _ string, update *commonpb.ConfigUpdateEnvelope, _ []*identity.SigningIdentity, c *client) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			now, err := c.fetch(ctx)
			for err != nil && pause(ctx) {
				now, err = c.fetch(ctx)
			}
			if err != nil {
				return err
			}
			return o.bringAbout(cmd, c, update, now.config.Sequence)
		})
}

type updateAction func(*cobra.Command, string, *commonpb.ConfigUpdateEnvelope, []*identity.SigningIdentity, *client) error

// withUpdate is a command on an update in a file.
func (o *options) withUpdate(use, short string, act updateAction) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signers, c, err := o.open()
			if err != nil {
				return err
			}
			update, err := readUpdate(args[0])
			if err != nil {
				return err
			}
			return act(cmd, args[0], update, signers, c)
		},
	}
}

// open loads the signers and gives a client that speaks for the first of them.
func (o *options) open() ([]*identity.SigningIdentity, *client, error) {
	f, err := openFolder(o.network)
	if err != nil {
		return nil, nil, err
	}
	names := o.signers
	if len(names) == 0 {
		names = slices.DeleteFunc(f.organisations(), func(name string) bool { return !f.hasKey(name) })
	}
	var signers []*identity.SigningIdentity
	for _, name := range names {
		signer, err := f.admin(name)
		if err != nil {
			return nil, nil, err
		}
		signers = append(signers, signer)
	}
	if len(signers) == 0 {
		return nil, nil, fmt.Errorf("%s: its folder has no administrator's key: one at users/Admin@*/msp/keystore of an organisation is accepted", o.network)
	}
	c, err := f.client(o.channel, signers[0])
	return signers, c, err
}

// change makes an update of what is in force now.
func (o *options) change(cmd *cobra.Command, patch channelconfig.Patch) error {
	signers, c, err := o.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	now, err := c.fetch(ctx)
	if err != nil {
		return err
	}
	to, err := patch.Apply(now.config)
	if err != nil {
		return err
	}
	update, err := channelconfig.NewUpdate(c.channel, now.config, to)
	if err != nil {
		return err
	}
	if o.out != "" {
		return writeUpdate(o.out, update, signers)
	}
	for _, s := range signers {
		if err := channelconfig.SignUpdate(update, s); err != nil {
			return err
		}
	}
	return o.bringAbout(cmd, c, update, now.config.Sequence)
}

func (o *options) bringAbout(cmd *cobra.Command, c *client, update *commonpb.ConfigUpdateEnvelope, madeOf uint64) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	now, err := c.send(ctx, update, madeOf)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "channel %s: configuration %d is in force from block %d on\n", c.channel, now.config.Sequence, now.block)
	return err
}

func readUpdate(file string) (*commonpb.ConfigUpdateEnvelope, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	update := &commonpb.ConfigUpdateEnvelope{}
	if err := protoutil.Unmarshal(raw, update); err != nil || len(update.ConfigUpdate) == 0 {
		return nil, fmt.Errorf("%s: an update that `--out` wrote is accepted", file)
	}
	return update, nil
}

func writeUpdate(file string, update *commonpb.ConfigUpdateEnvelope, signers []*identity.SigningIdentity) error {
	for _, s := range signers {
		if err := channelconfig.SignUpdate(update, s); err != nil {
			return err
		}
	}
	raw, err := proto.Marshal(update)
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o644)
}

// Description is what `show` prints.
type Description struct {
	Channel       string               `json:"channel"`
	Sequence      uint64               `json:"sequence"`
	Block         uint64               `json:"block"`
	Mode          string               `json:"mode"`
	Organisations map[string][]string  `json:"organisations"` // their peers
	Orderers      []string             `json:"orderers"`
	Consenters    []string             `json:"consenters,omitempty"` // of Raft, PBFT and Zyzzyva
	Chaincodes    map[string]Chaincode `json:"chaincodes"`
}

// Chaincode is a definition as `show` prints it.
type Chaincode struct {
	Version  string `json:"version"`
	Sequence uint64 `json:"sequence"`
}

func describe(out io.Writer, channel string, now *current) error {
	bundle, err := channelconfig.FromConfig(channel, now.config)
	if err != nil {
		return err
	}
	d := Description{
		Channel: channel, Sequence: bundle.Sequence, Block: now.block, Mode: bundle.Orderer.Mode.String(), Orderers: bundle.Orderer.Addresses,
		Organisations: map[string][]string{}, Chaincodes: map[string]Chaincode{},
	}
	for _, c := range bundle.Orderer.Consenters {
		d.Consenters = append(d.Consenters, channelconfig.ConsenterAddress(c))
	}
	for name, org := range bundle.Orgs {
		d.Organisations[name] = org.Peers
	}
	for name, cc := range bundle.Chaincodes {
		d.Chaincodes[name] = Chaincode{cc.Version, cc.Sequence}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}
