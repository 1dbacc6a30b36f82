package bftbench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
)

// gateVariable is the environment variable that names a pipe. A command that has it waits there, with its first table open,
// until who has opened the pipe for writing closes it.
const gateVariable = "QIOI_BFT_BENCH_GATE"

func waitAtGate() {
	gate := os.Getenv(gateVariable)
	if gate == "" {
		return
	}
	pass := sync.OnceValue(func() error {
		_, err := os.ReadFile(gate)
		return err
	})
	sqlite.RegisterConnectionHook(func(sqlite.ExecQuerierContext, string) error { return pass() })
}

// listening starts a command that hears these signals, though whoever runs the tests ignores them: nohup, or a shell that has
// them run behind it.
var listening = []string{"env", "--default-signal=HUP,INT"}

// TestAnInterruptLeavesNoFilesWhileCostsAreMeasured: the folder of the table goes, as after a run. So does a terminal's end,
// of which the shell and the kernel tell.
func TestAnInterruptLeavesNoFilesWhileCostsAreMeasured(t *testing.T) {
	for name, ends := range map[string]syscall.Signal{"interrupt": syscall.SIGINT, "hangup": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			h := holds(t, listening, "simulate", "--execution", "sqlite", "--records", "1000")
			h.tell(ends)
			h.heeds()
			if ends == syscall.SIGHUP {
				h.tell(ends)
			}
			h.letGo()
			require.Error(t, h.end())
			assert.Equal(t, 1, h.ProcessState.ExitCode(), "it ends by itself")
			assert.Empty(t, h.files())
		})
	}
}

// TestUnderNohupItOutlivesItsTerminal and comes to its result.
func TestUnderNohupItOutlivesItsTerminal(t *testing.T) {
	h := holds(t, []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, "simulate", "--execution", "sqlite", "--records", "1000")
	h.tell(syscall.SIGHUP)
	h.letGo()
	require.NoError(t, h.end())
	assert.Empty(t, h.files())
}

// TestASecondInterruptEndsAMeasurementAtOnce, which the first one cannot: it is at its gate.
func TestASecondInterruptEndsAMeasurementAtOnce(t *testing.T) {
	h := holds(t, listening, "simulate", "--execution", "sqlite", "--records", "1000")
	h.tell(syscall.SIGINT)
	h.heeds()
	assert.Empty(t, h.ended, "the first has it end in order")
	// The first is heeded a moment before the next one counts.
	require.Eventually(t, func() bool {
		_ = h.Process.Signal(syscall.SIGINT)
		return len(h.ended) > 0
	}, time.Minute, 10*time.Millisecond, "it goes on")
	require.Error(t, h.end())
	assert.Equal(t, syscall.SIGINT, h.ProcessState.Sys().(syscall.WaitStatus).Signal(), "it ends by the interrupt")
}

// TestAnInterruptEndsAStart: a replica fills its table before it answers. Here it does not come to that.
func TestAnInterruptEndsAStart(t *testing.T) {
	h := holds(t, listening, "--execution", "sqlite", "--records", "1000")
	h.tell(syscall.SIGINT)
	require.Error(t, h.end())
	assert.Equal(t, 1, h.ProcessState.ExitCode(), "it ends by itself")
	assert.Empty(t, h.files())
}

// held is a command that waits at its gate, or one of whose replicas does.
type held struct {
	*exec.Cmd
	t      *testing.T
	folder string // folder is where it has its files
	gate   *os.File
	ended  chan error // ended has what it has ended with
}

// holds starts bft-bench by another command, and waits until it is at its gate.
func holds(t *testing.T, by []string, args ...string) *held {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	all := append(append(slices.Clone(by), self, "bft-bench"), args...)
	ctx, kill := context.WithCancel(context.Background())
	h := &held{Cmd: exec.CommandContext(ctx, all[0], all[1:]...), t: t, folder: t.TempDir(), ended: make(chan error, 1)}
	h.Env = append(os.Environ(), "TMPDIR="+h.folder, gateVariable+"="+gate)
	require.NoError(t, h.Start())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		h.ended <- h.Wait()
	}()
	t.Cleanup(func() {
		kill()
		<-gone
	})
	require.Eventually(t, func() bool {
		h.gate, err = os.OpenFile(gate, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails until somebody reads there
		return err == nil || len(h.ended) > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, err, "it has ended")
	t.Cleanup(func() { _ = h.gate.Close() })
	require.NotEmpty(t, h.files())
	return h
}

func (h *held) tell(signal syscall.Signal) {
	h.t.Helper()
	require.NoError(h.t, h.Process.Signal(signal))
}

var ignored = regexp.MustCompile(`(?m)^SigIgn:\t([0-9a-f]+)$`)

// heeds waits until the command has taken a first signal in: it ignores a hangup from then on.
func (h *held) heeds() {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.Process.Pid), "status"))
		found := ignored.FindSubmatch(status)
		if !assert.NoError(h.t, err) || !assert.NotNil(h.t, found) {
			return true
		}
		signals, err := strconv.ParseUint(string(found[1]), 16, 64)
		return assert.NoError(h.t, err) && signals&(1<<(syscall.SIGHUP-1)) != 0
	}, time.Minute, time.Millisecond, "it does not hear the signal")
}

func (h *held) letGo() {
	h.t.Helper()
	require.NoError(h.t, h.gate.Close())
}

// end waits for the command's end.
func (h *held) end() error {
	h.t.Helper()
	select {
	case err := <-h.ended:
		return err
	case <-time.After(time.Minute):
		require.Fail(h.t, "it goes on")
		return nil
	}
}

// files are those that the command has.
func (h *held) files() []os.DirEntry {
	h.t.Helper()
	found, err := os.ReadDir(h.folder)
	require.NoError(h.t, err)
	return found
}
