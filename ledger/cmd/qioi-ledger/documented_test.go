package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePagesHaveEveryOption(t *testing.T) {
	for command, page := range map[string]string{
		"init": "ledger-tools.md", "load": "ledger-tools.md", "inspect": "ledger-tools.md", "bft-bench": "resilientdb.md",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
		require.NoError(t, err)
		cmd, _, err := newRoot().Find([]string{command})
		require.NoError(t, err)
		require.True(t, cmd.HasAvailableFlags(), command)
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			assert.Regexp(t, regexp.MustCompile("--"+flag.Name+`[^-\w]`), string(text), "%s: an option of %s", page, command)
		})
	}
}
