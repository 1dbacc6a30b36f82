package orderer

import (
	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/serving"
)

// Command is `qioi-ledger orderer`.
func Command() *cobra.Command {
	return serving.Command(nodeconfig.RoleOrderer, "Run an ordering node", Open)
}
