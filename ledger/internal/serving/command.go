package serving

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/process"
)

var log = ops.Logger("serving")

// Node is an opened node of either role: Run serves until ctx ends.
type Node interface {
	Run(ctx context.Context) error
}

// Command is `qioi-ledger ROLE --config FILE`: it opens the node that the file
// describes and runs it until SIGINT or SIGTERM.
func Command[N Node](role, short string, open func(*nodeconfig.Config) (N, error)) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   role + " --config FILE",
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := nodeconfig.Load(path, role)
			if err != nil {
				return err
			}
			if !cfg.LikeFabric { // Tune comes before signals are caught
				process.Tune(cfg.Processors, cfg.WireGap)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if !cfg.LikeFabric {
				process.SpareCollections(ctx)
			}
			// A ledger may take long to open, and bears that the process ends at any time.
			opened := context.AfterFunc(ctx, func() {
				log.Infof("%s: stopped while it was starting", cfg.Name)
				os.Exit(0)
			})
			node, err := open(cfg)
			if !opened() {
				select {} // the process is ending
			}
			if err != nil {
				return err
			}
			return node.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the node's configuration, DIR/nodes/NAME.yaml")
	_ = cmd.MarkFlagRequired("config") // the flag exists: the line above made it
	return cmd
}
