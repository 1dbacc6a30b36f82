package serving

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// opening is set to a configuration where this test's program is a node that never comes to its end of opening.
const opening = "QIOI_TEST_OPENING"

type neverOpen struct{}

func (neverOpen) Run(context.Context) error { return nil }

func init() {
	file := os.Getenv(opening)
	if file == "" {
		return
	}
	cmd := Command(nodeconfig.RolePeer, "", func(*nodeconfig.Config) (neverOpen, error) {
		fmt.Println("opening")
		select {}
	})
	cmd.SetArgs([]string{"--config", file})
	fmt.Println(cmd.Execute())
	os.Exit(1)
}

// TestANodeIsStoppedWhileItOpens at once, and in order: it may have a long ledger to replay.
func TestANodeIsStoppedWhileItOpens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes", "peer0.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	node := nodeconfig.Config{
		Name: "peer0", Role: nodeconfig.RolePeer, MSPID: "Org1MSP", Listen: "127.0.0.1:0", Operations: nodeconfig.Operations{Listen: "127.0.0.1:0"},
		Identity: nodeconfig.KeyPair{Cert: "c", Key: "k"}, Data: "data", Channels: []nodeconfig.Channel{{Name: "c", Genesis: "g"}},
	}
	require.NoError(t, node.Save(file))
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), opening+"="+file)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	assert.NoError(t, err)
	assert.Equal(t, "opening\n", line)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}
