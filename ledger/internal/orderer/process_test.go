package orderer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/processtest"
)

// The test binary is the orderer as well, so that tests can SIGKILL a real process.
const processEnv = "QIOI_TEST_ORDERER"

func TestMain(m *testing.M) {
	if config := os.Getenv(processEnv); config != "" {
		switch os.Getenv(liarEnv) {
		case "":
		case isLate:
			kinds[channelconfig.BFT] = &late
		default:
			kinds[channelconfig.BFT], kinds[channelconfig.Zyzzyva] = &lying, &lyingByZyzzyva
		}
		if err := runProcess(config); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if args := os.Getenv(sequencerEnv); args != "" {
		if err := runSequencer(args); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runProcess(config string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := nodeconfig.Load(config, nodeconfig.RoleOrderer)
	if err != nil {
		return err
	}
	node, err := Open(cfg)
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

// spawn runs an orderer as a process of its own; end sends it a signal and waits.
func (c *testCluster) spawn(i int) (end func(os.Signal)) {
	c.t.Helper()
	end, _ = c.spawnProcess(i, nil)
	return end
}

// spawnProcess says which process it is as well, and gives it more of an environment.
func (c *testCluster) spawnProcess(i int, env []string) (end func(os.Signal), pid int) {
	c.t.Helper()
	return c.spawnAs(i, append([]string{processEnv + "=" + c.config(i)}, env...))
}

// spawnAs runs this test binary as a node. One that something else ends than the signal has failed.
func (c *testCluster) spawnAs(i int, env []string) (end func(os.Signal), pid int) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env, cmd.Stderr = c.dir, append(os.Environ(), env...), c.logFile(i)
	cmd.SysProcAttr = processtest.Mortal()
	require.NoError(c.t, cmd.Start())
	ended := false
	end = func(sig os.Signal) {
		if ended {
			return
		}
		ended = true
		assert.NoError(c.t, processtest.End(cmd, sig, cmd.Wait), c.node(i).Name)
	}
	c.t.Cleanup(func() { end(syscall.SIGKILL) })
	return end, cmd.Process.Pid
}

func (c *testCluster) logFile(i int) *os.File {
	f, err := os.OpenFile(filepath.Join(c.dir, c.node(i).Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = f.Close() })
	return f
}
