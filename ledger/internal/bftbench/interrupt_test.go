package bftbench

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnInterruptLeavesNoFilesWhileCostsAreMeasured: the folder of the table goes, as after a run.
func TestAnInterruptLeavesNoFilesWhileCostsAreMeasured(t *testing.T) {
	folder := t.TempDir()
	files := func() []os.DirEntry {
		found, err := os.ReadDir(folder)
		require.NoError(t, err)
		return found
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "bft-bench", "simulate", "--execution", "sqlite", "--records", "100000")
	cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(files()) > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "it ends by itself")
	assert.Empty(t, files())
}
