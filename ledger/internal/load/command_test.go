package load

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commandEnv is set where this test's program is the command, to the network that it shall use.
const commandEnv = "QIOI_TEST_LOAD"

// onceEnv is set where this test's program is the command that does one operation.
const onceEnv = "QIOI_TEST_ONCE"

// Its values that have that command end without a word.
const (
	onceKilled = "killed"
	oncePanics = "panics"
	onceSilent = "silent"
)

func TestMain(m *testing.M) {
	switch os.Getenv(onceEnv) {
	case onceKilled:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case oncePanics:
		panic("once")
	case onceSilent:
		os.Exit(0)
	}
	if os.Getenv(onceEnv) != "" {
		root := &cobra.Command{}
		root.AddCommand(Command())
		root.SetArgs(os.Args[1:])
		if root.Execute() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if network := os.Getenv(commandEnv); network != "" {
		cmd := Command()
		cmd.SetArgs([]string{"--network", network, "--rate", "1"})
		if cmd.Execute() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestASignalWhileItBeginsIsNotLost: it may begin anew once it has read the network, and would not know any more of a
// signal that it has caught before.
func TestASignalWhileItBeginsIsNotLost(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	for _, ending := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		network := filepath.Join(t.TempDir(), "network.json")
		require.NoError(t, syscall.Mkfifo(network, 0o600))
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), commandEnv+"="+network)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
		var pipe *os.File
		require.Eventually(t, func() bool { // it has begun to read, and waits
			pipe, err = os.OpenFile(network, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return err == nil
		}, time.Minute, time.Millisecond)
		require.NoError(t, cmd.Process.Signal(ending))
		_ = cmd.Wait() // it says that it was killed
		require.NoError(t, pipe.Close())
		assert.Equal(t, ending, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
}

// TestAMistypedResultIsToldBeforeTheRun: an hour's measurement would be lost after it.
func TestAMistypedResultIsToldBeforeTheRun(t *testing.T) {
	g := &fakeGateway{}
	network, record := startNetwork(t, g), filepath.Join(t.TempDir(), "record")
	require.NoError(t, os.WriteFile(record, []byte("older"), 0o600))
	for _, mistyped := range [][3]string{{"--json", "/nowhere/x", "/nowhere/x: "}, {"--timeseries", "/nowhere/x", "/nowhere/x: "}, {"--timeseries", "-", `result "-": `}} {
		cmd := Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"--network", network, "--rate", "100", "--warmup", "0s", "--duration", "100ms", "--progress", "0", "--record", record, mistyped[0], mistyped[1]})
		require.ErrorContains(t, cmd.Execute(), mistyped[2], mistyped[0])
	}
	assert.Empty(t, g.seen())
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	assert.Equal(t, "older", string(text))
}

// TestAnOlderRecordIsKeptUntilTheNetworkIsReached: a wrong address would take it away.
func TestAnOlderRecordIsKeptUntilTheNetworkIsReached(t *testing.T) {
	network, record := startNetwork(t, &fakeGateway{}), filepath.Join(t.TempDir(), "record")
	require.NoError(t, os.WriteFile(record, []byte("older"), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := execute(ctx, t, "--network", network, "--rate", "100", "--warmup", "0s", "--duration", "100ms", "--record", record)
	require.Error(t, err)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	assert.Equal(t, "older", string(text))
	_, err = execute(context.Background(), t, "--network", network, "--rate", "100", "--warmup", "0s", "--duration", "100ms", "--record", "/nowhere/x")
	require.ErrorContains(t, err, "/nowhere/x: ")
}

func TestEveryOutputIsTried(t *testing.T) {
	var stdout bytes.Buffer
	rows := filepath.Join(t.TempDir(), "rows.csv")
	require.ErrorContains(t, (&options{json: "/dev/full", timeseries: rows}).report(&Result{}, &stdout), "/dev/full")
	assert.Contains(t, stdout.String(), "throughput")
	assert.FileExists(t, rows)

	stdout.Reset()
	require.ErrorContains(t, (&options{json: "-", timeseries: "/dev/full"}).report(&Result{}, &stdout), "/dev/full")
	assert.Contains(t, stdout.String(), "throughput_tps")
}
