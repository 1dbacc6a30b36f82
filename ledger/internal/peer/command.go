package peer

import (
	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/serving"
)

// Command is `qioi-ledger peer`.
func Command() *cobra.Command {
	return serving.Command(nodeconfig.RolePeer, "Run a peer", Open)
}
