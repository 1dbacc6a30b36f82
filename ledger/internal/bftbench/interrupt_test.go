package bftbench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listening starts a command that hears these signals, though whoever runs the tests ignores them: nohup, or a shell that has
// them run behind it.
var listening = []string{"env", "--default-signal=HUP,INT"}

// TestAnInterruptLeavesNoFilesWhileCostsAreMeasured: the folder of the table goes, as after a run. So does a terminal's end,
// of which the shell and the kernel tell.
func TestAnInterruptLeavesNoFilesWhileCostsAreMeasured(t *testing.T) {
	for name, ends := range map[string]syscall.Signal{"interrupt": syscall.SIGINT, "hangup": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			cmd, files := measuring(t, "100000", listening...)
			require.NoError(t, cmd.Process.Signal(ends))
			if ends == syscall.SIGHUP {
				again := time.AfterFunc(10*time.Millisecond, func() { _ = cmd.Process.Signal(ends) })
				defer again.Stop()
			}
			require.Error(t, cmd.Wait())
			assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "it ends by itself")
			assert.Empty(t, files())
		})
	}
}

// TestUnderNohupItOutlivesItsTerminal and comes to its result.
func TestUnderNohupItOutlivesItsTerminal(t *testing.T) {
	cmd, files := measuring(t, "100000", "sh", "-c", `trap "" HUP; exec "$@"`, "sh")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.NoError(t, cmd.Wait())
	assert.Empty(t, files())
}

// TestASecondInterruptEndsAMeasurementAtOnce: its table takes longer to fill here than anybody waits.
func TestASecondInterruptEndsAMeasurementAtOnce(t *testing.T) {
	cmd, _ := measuring(t, "100000000", listening...)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	assert.Eventually(t, func() bool {
		_ = cmd.Process.Signal(syscall.SIGINT)
		return len(ended) > 0
	}, time.Minute, 10*time.Millisecond, "it goes on")
}

// measuring is a process that fills a table for its measurement, started by the command where there is one, and its files.
func measuring(t *testing.T, records string, by ...string) (cmd *exec.Cmd, files func() []os.DirEntry) {
	folder := t.TempDir()
	files = func() []os.DirEntry {
		found, err := os.ReadDir(folder)
		require.NoError(t, err)
		return found
	}
	self, err := os.Executable()
	require.NoError(t, err)
	all := append(slices.Clone(by), self, "bft-bench", "simulate", "--execution", "sqlite", "--records", records)
	cmd = exec.Command(all[0], all[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool { return len(files()) > 0 }, time.Minute, time.Millisecond)
	return cmd, files
}

// TestAnInterruptEndsAStart: a replica fills its table before it answers, here for longer than anybody waits.
func TestAnInterruptEndsAStart(t *testing.T) {
	folder := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	all := append(slices.Clone(listening), self, "bft-bench", "--execution", "sqlite", "--records", "100000000")
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		tables, err := filepath.Glob(filepath.Join(folder, "*", "1", "*"))
		return assert.NoError(t, err) && len(tables) > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	require.Error(t, err)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "it ends by itself")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
}
