// Command qioi-ledger is the bundled ledger: every node, tool and load generator
// of it is a subcommand.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/bftbench"
	"github.com/qioi/qioi/ledger/internal/calibrate"
	"github.com/qioi/qioi/ledger/internal/configtool"
	"github.com/qioi/qioi/ledger/internal/contracts"
	"github.com/qioi/qioi/ledger/internal/inspect"
	"github.com/qioi/qioi/ledger/internal/load"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer"
	"github.com/qioi/qioi/ledger/internal/peer"
	"github.com/qioi/qioi/ledger/internal/process"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/internal/setup"
)

func init() { process.MayRestart() }

// sayUsage has every command that is given a wrong number of arguments say which it takes, and one that is but a group
// of others say which these are: cobra would print the help of such a one, and succeed.
func sayUsage(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
		if accepts := sub.Args; accepts != nil {
			sub.Args = func(cmd *cobra.Command, args []string) error {
				if err := accepts(cmd, args); err != nil {
					return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
				}
				return nil
			}
		}
		if !sub.Runnable() {
			sub.Args, sub.RunE = oneOfItsOwn, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// oneOfItsOwn refuses what is none of a group's commands: cobra has found those that are.
func oneOfItsOwn(group *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range group.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("unknown command %q for %q: %s are accepted", args[0], group.CommandPath(), strings.Join(names, ", "))
}

func main() {
	if err := newRoot().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "qioi-ledger",
		Short:         "A permissioned ledger with Fabric's interfaces that streams transactions",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       ops.ThisBuild().String(),
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(setup.Command(), setup.AddOrdererCommand(), setup.RenewTLSCommand(), orderer.Command(), peer.Command(), inspect.Command(), contracts.Command(), load.Command(), configtool.Command(), sequencer.Command(), calibrate.Command(), bftbench.Command(), nodeCommand())
	sayUsage(root)
	return root
}
