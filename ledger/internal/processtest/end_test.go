package processtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEndTellsWhatHasEndedAProcess: the signal, or something else before or after it.
func TestEndTellsWhatHasEndedAProcess(t *testing.T) {
	const untilKilled, gone = "; echo; while :; do sleep 0.01; done", true
	for name, c := range map[string]struct {
		script string
		gone   bool // before the signal
		by     os.Signal
		ended  bool
	}{
		"killed":                      {":" + untilKilled, !gone, syscall.SIGKILL, true},
		"ends in an orderly way":      {"trap 'exit 0' TERM" + untilKilled, !gone, syscall.SIGTERM, true},
		"fails at its end":            {"trap 'exit 2' TERM" + untilKilled, !gone, syscall.SIGTERM, false},
		"has no time for its end":     {":" + untilKilled, !gone, syscall.SIGTERM, false},
		"failed before it was killed": {"exit 2", gone, syscall.SIGKILL, false},
		"ended before it was killed":  {"exit 0", gone, syscall.SIGKILL, false},
		"killed before it was to end": {"kill -9 $$", gone, syscall.SIGTERM, false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", c.script)
			cmd.SysProcAttr = Mortal()
			said, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = bufio.NewReader(said).ReadString('\n')
			if c.gone {
				require.ErrorIs(t, err, io.EOF)
			} else {
				require.NoError(t, err)
			}
			err = End(cmd, c.by, cmd.Wait)
			assert.Equal(t, c.ended, err == nil, "%v", err)
		})
	}
}

// TestEndOfOneThatWasWaitedFor: a signal that found nobody has ended nothing, unless it was SIGKILL again.
func TestEndOfOneThatWasWaitedFor(t *testing.T) {
	for script, by := range map[string]os.Signal{"kill -9 $$": syscall.SIGKILL, "exit 0": syscall.SIGTERM} {
		cmd := exec.Command("sh", "-c", script)
		err := cmd.Run()
		assert.Equal(t, by == syscall.SIGTERM, err == nil)
		err = End(cmd, by, func() error { return nil })
		assert.Equal(t, by == syscall.SIGKILL, err == nil, "%v", err)
	}
}
