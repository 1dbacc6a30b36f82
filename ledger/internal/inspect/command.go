// Package inspect is the command that checks a node's ledger on disk and says what is in it.
package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// Command is `qioi-ledger inspect`.
func Command() *cobra.Command {
	var asJSON, verdicts bool
	cmd := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Check a ledger on disk (DATA/channels/CHANNEL) and say what is in it",
		Long: "Reads every block of a peer's or an orderer's ledger, checks frames, hashes and commit hashes, replays a peer's\n" +
			"state, prints its hash and holds the checkpoints against it. Changes nothing. Exits with 1 where the ledger\n" +
			"is damaged, and says where.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := chain.Inspect(args[0], verdicts)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(report)
			}
			return write(cmd.OutOrStdout(), report)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&verdicts, "verdicts", false, "list the verdict on every transaction")
	return cmd
}

func write(w io.Writer, r *chain.Report) error {
	type line struct {
		name  string
		value any
	}
	lines := []line{
		{"channel", r.Channel}, {"height", r.Height}, {"transactions", r.Transactions}, {"open transactions", r.OpenTxs}, {"last hash", r.LastHash},
	}
	if r.StateHash != "" {
		lines = append(lines, line{"commit hash", r.CommitHash}, line{"state hash", r.StateHash}, line{"keys", r.Keys})
	}
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		lines = append(lines, line{code, r.Codes[code]})
	}
	for _, c := range r.Checkpoints {
		if c.Problem != "" {
			lines = append(lines, line{"unusable checkpoint", c.File + ": " + c.Problem})
			continue
		}
		lines = append(lines, line{"checkpoint, in blocks", c.Blocks})
	}
	for _, c := range r.IDs {
		if c.Problem != "" {
			lines = append(lines, line{"unusable ids", c.File + ": " + c.Problem})
			continue
		}
		lines = append(lines, line{"ids on disk, of blocks", c.Blocks})
	}
	if r.TornBytes > 0 {
		lines = append(lines, line{"torn bytes", r.TornBytes})
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-28s %v\n", l.name, l.value); err != nil {
			return err
		}
	}
	for _, v := range r.Verdicts {
		if _, err := fmt.Fprintln(w, v); err != nil {
			return err
		}
	}
	return nil
}
