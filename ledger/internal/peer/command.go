package peer

import (
	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// Command is `qioi-ledger peer`.
func Command() *cobra.Command {
	return nodeconfig.Command(nodeconfig.RolePeer, "Run a peer", Open)
}
