package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/setup"
)

func TestANodeIsStartedByItsName(t *testing.T) {
	o := setup.Defaults()
	o.Dir = filepath.Join(t.TempDir(), "net")
	_, err := setup.Init(o)
	require.NoError(t, err)
	file := filepath.Join(o.Dir, network.FileName)

	found, err := argumentsOf(file, "orderer2")
	require.NoError(t, err)
	assert.Equal(t, []string{"orderer", "--config", "nodes/orderer2.yaml"}, found)
	_, err = argumentsOf(file, "orderer9")
	require.ErrorContains(t, err, "orderer1, orderer2, orderer3")
	_, err = argumentsOf("", "orderer1")
	require.ErrorContains(t, err, "--network is missing")

	o.Dir, o.Consenter = filepath.Join(t.TempDir(), "net"), "kafka"
	_, err = setup.Init(o)
	require.NoError(t, err)
	_, err = argumentsOf(filepath.Join(o.Dir, network.FileName), "broker1")
	require.ErrorContains(t, err, "another program")
}

func TestWrongArgumentsSayTheUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"accepts 1 arg(s), received 0; usage: qioi-ledger inspect DIR":                              {"inspect"},
		"unknown command \"remove-orderer\" for \"qioi-ledger config\": add-consenter, add-org, ":   {"config", "remove-orderer", "orderer2"},
		"accepts 1 arg(s), received 2; usage: qioi-ledger config upgrade-chaincode NAME":            {"config", "upgrade-chaincode", "a", "b"},
		"unknown command \"x\" for \"qioi-ledger init\"; usage: qioi-ledger init --dir DIR [flags]": {"init", "x"},
	} {
		root := newRoot()
		root.SetArgs(args)
		assert.ErrorContains(t, root.Execute(), want)
	}
}

func TestAGroupOfCommandsAloneShowsItsHelp(t *testing.T) {
	var told bytes.Buffer
	root := newRoot()
	root.SetOut(&told)
	root.SetArgs([]string{"config"})
	require.NoError(t, root.Execute())
	assert.Contains(t, told.String(), "remove-consenter")
}

func TestNoFlagTakesWhatIsNoNumber(t *testing.T) {
	seen := 0
	for _, cmd := range allBelow(newRoot()) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() == "float64" {
				seen++
				require.ErrorContains(t, cmd.Flags().Set(flag.Name, "NaN"), "a finite number is accepted", "%s", cmd.CommandPath())
			}
		})
	}
	assert.Positive(t, seen)
}

// What stands in backquotes in a flag's text is the name of its value in the help.
func TestNoFlagTakesAWordOfItsTextForItsValue(t *testing.T) {
	for _, cmd := range allBelow(newRoot()) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(flag); strings.Contains(flag.Usage, "`") {
				assert.Equal(t, strings.ToUpper(name), name, "%s --%s", cmd.CommandPath(), flag.Name)
			}
		})
	}
}

func allBelow(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, allBelow(sub)...)
	}
	return all
}
