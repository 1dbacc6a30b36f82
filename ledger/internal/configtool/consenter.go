package configtool

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// consenterFlags say what the network's folder does not.
type consenterFlags struct {
	tlsCert, clientTLSCert, mspID, identity string
}

func (o *options) addConsenter() *cobra.Command {
	return o.certifiedConsenter("add-consenter NAME|ADDRESS", "Let an orderer take part in ordering: it runs already, and follows the channel", true)
}

func (o *options) rotateConsenter() *cobra.Command {
	return o.certifiedConsenter("rotate-consenter NAME|ADDRESS", "Make an orderer's next TLS certificate the one that the others accept", false)
}

// certifiedConsenter is a command that gives a consenter its certificates.
func (o *options) certifiedConsenter(use, short string, add bool) *cobra.Command {
	var flags consenterFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := o.consenter(args[0], flags)
			if err != nil {
				return err
			}
			patch.Rotate = !add
			return o.change(cmd, channelconfig.Patch{Consenters: []channelconfig.ConsenterPatch{patch}})
		},
	}
	cmd.Flags().StringVar(&flags.tlsCert, "tls-cert", "", "its TLS certificate, PEM (default: of the orderer of that name in the network's folder)")
	cmd.Flags().StringVar(&flags.clientTLSCert, "client-tls-cert", "", "the one that it shows as a client, PEM (default: the same)")
	cmd.Flags().StringVar(&flags.identity, "identity", "",
		"the certificate that it signs with, PEM, of --consenter bft and zyzzyva (default: of the orderer of that name)")
	if add {
		cmd.Flags().StringVar(&flags.mspID, "msp-id", "", "MSP id of its organisation (default: the only one that the channel's orderers have)")
	}
	o.outFlag(cmd)
	return cmd
}

func (o *options) removeConsenter() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove-consenter NAME|ADDRESS", Short: "Remove an orderer from those that order", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, _, _, err := o.named(args[0])
			if err != nil {
				return err
			}
			patch.Remove = true
			if err := o.change(cmd, channelconfig.Patch{Consenters: []channelconfig.ConsenterPatch{patch}}); err != nil || o.out != "" {
				return err
			}
			return o.remind(cmd, patch.Address)
		},
	}
	o.outFlag(cmd)
	return cmd
}

// remind says of an orderer that no longer orders that the tool goes on to count it, where it counts orderers.
func (o *options) remind(cmd *cobra.Command, address string) error {
	_, c, err := o.open()
	if err != nil || c.need == 1 || !slices.Contains(c.addresses, address) {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s goes on to count among the %d orderers that are asked: %s\n", address, len(c.addresses), leaveNetwork)
	return err
}

// named finds an orderer by its name in the network's folder, or takes an address as it is. tls and signs are its
// certificates' files, if known.
func (o *options) named(name string) (patch channelconfig.ConsenterPatch, tls, signs string, err error) {
	f, err := openFolder(o.network)
	if err != nil {
		return patch, "", "", err
	}
	var known []string
	for _, n := range f.Nodes {
		if n.Role != nodeconfig.RoleOrderer {
			continue
		}
		if known = append(known, n.Name); n.Name != name && n.Address != name {
			continue
		}
		cfg, err := nodeconfig.Load(filepath.Join(f.dir, filepath.FromSlash(n.Config)), nodeconfig.RoleOrderer)
		if err != nil {
			return patch, "", "", err
		}
		if tls = cfg.TLS.Cert; tls == "" { // TLS is off; the channel names certificates all the same
			tls = filepath.Join(filepath.Dir(cfg.Identity.Cert), "..", "..", "tls", "server.crt")
		}
		return channelconfig.ConsenterPatch{Address: n.Address}, tls, cfg.Identity.Cert, nil
	}
	if _, _, err := net.SplitHostPort(name); err != nil {
		return patch, "", "", fmt.Errorf("orderer %q: one of %v, or host:port, is accepted", name, known)
	}
	return channelconfig.ConsenterPatch{Address: name}, "", "", nil
}

func (o *options) consenter(name string, flags consenterFlags) (channelconfig.ConsenterPatch, error) {
	patch, cert, signs, err := o.named(name)
	if err != nil {
		return patch, err
	}
	if flags.tlsCert != "" {
		cert = flags.tlsCert
	}
	if flags.identity != "" {
		signs = flags.identity
	}
	if cert == "" {
		return patch, fmt.Errorf("orderer %s is not in %s: --tls-cert is missing", name, o.network)
	}
	for _, pem := range []struct {
		file string
		into *string
	}{{cert, &patch.TLSCert}, {flags.clientTLSCert, &patch.ClientTLSCert}, {signs, &patch.Identity}} {
		if pem.file == "" {
			continue
		}
		text, err := os.ReadFile(pem.file)
		if err != nil {
			return patch, err
		}
		*pem.into = string(text)
	}
	patch.MSPID = flags.mspID
	return patch, nil
}
