package calibrate

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// Command returns the subcommand calibrate.
func Command() *cobra.Command {
	folder := "."
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine's signatures, fsyncs and wake-ups, and print them as JSON",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := Run(folder)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
		},
	}
	cmd.Flags().StringVar(&folder, "dir", folder, "folder in which fsync is measured")
	return cmd
}
