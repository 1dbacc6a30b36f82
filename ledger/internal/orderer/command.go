package orderer

import (
	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// Command is `qioi-ledger orderer`.
func Command() *cobra.Command {
	return nodeconfig.Command(nodeconfig.RoleOrderer, "Run an ordering node", Open)
}
