package peer

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// Command is `qioi-ledger peer`.
func Command() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "peer --config FILE",
		Short: "Run a peer",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			cfg, err := nodeconfig.Load(path, nodeconfig.RolePeer)
			if err != nil {
				return err
			}
			node, err := Open(cfg)
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
