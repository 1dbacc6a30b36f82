// Command qioi-ledger is the bundled ledger: every node, tool and load generator
// of it is a subcommand.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/configtool"
	"github.com/qioi/qioi/ledger/internal/contracts"
	"github.com/qioi/qioi/ledger/internal/inspect"
	"github.com/qioi/qioi/ledger/internal/load"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/orderer"
	"github.com/qioi/qioi/ledger/internal/peer"
	"github.com/qioi/qioi/ledger/internal/setup"
)

func init() { nodeconfig.MayRestart() }

func main() {
	root := &cobra.Command{
		Use:           "qioi-ledger",
		Short:         "A permissioned ledger with Fabric's interfaces that streams transactions",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(setup.Command(), setup.AddOrdererCommand(), setup.RenewTLSCommand(), orderer.Command(), peer.Command(), inspect.Command(), contracts.Command(), load.Command(), configtool.Command(), nodeCommand())
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
