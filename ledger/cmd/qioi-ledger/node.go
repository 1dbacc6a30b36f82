package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/network"
)

// nodeCommand is `qioi-ledger node`: what a pod that knows no more than its own name is started with.
func nodeCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "node NAME --network DIR/network.json",
		Short: "Run the orderer, peer or chaincode that has this name in network.json",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := argumentsOf(file, args[0])
			if err != nil {
				return err
			}
			if err := os.Chdir(filepath.Dir(file)); err != nil {
				return err
			}
			root := cmd.Root()
			root.SetArgs(arguments)
			return root.ExecuteContext(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&file, "network", "", "`FILE` that init wrote, network.json")
	return cmd
}

// argumentsOf gives what a node's process is started with.
func argumentsOf(file, name string) ([]string, error) {
	if file == "" {
		return nil, fmt.Errorf("--network is missing: the network.json that `qioi-ledger init` wrote is accepted")
	}
	described, err := network.Load(file)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(described.Nodes, func(n network.Node) bool { return n.Name == name })
	if at < 0 {
		var names []string
		for _, n := range described.Nodes {
			names = append(names, n.Name)
		}
		return nil, fmt.Errorf("node %q is not in %s: %s are accepted", name, file, strings.Join(names, ", "))
	}
	if len(described.Nodes[at].Args) == 0 {
		return nil, fmt.Errorf("node %q of %s is a %s, which is another program: orderers, peers and chaincodes are accepted", name, file, described.Nodes[at].Role)
	}
	return described.Nodes[at].Args, nil
}
