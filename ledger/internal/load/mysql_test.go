package load

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/porttest"
)

// startMariaDB serves an empty database and writes the network.json that leads to it.
func startMariaDB(t *testing.T) string {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil || testing.Short() {
		t.Skip("needs mariadb-server-core, and some seconds")
	}
	dir := t.TempDir()
	data, words, log := filepath.Join(dir, "data"), filepath.Join(dir, "init.sql"), filepath.Join(dir, "log")
	made, err := exec.Command("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+data, "--skip-test-db",
		"--auth-root-authentication-method=normal").CombinedOutput()
	require.NoError(t, err, string(made))
	require.NoError(t, os.WriteFile(words, []byte("CREATE DATABASE qioi;\nCREATE USER 'qioi'@'127.0.0.1';\nGRANT ALL ON qioi.* TO 'qioi'@'127.0.0.1';\n"), 0o644))
	port := porttest.Take(t)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	out, err := os.Create(log)
	require.NoError(t, err)
	cmd := exec.Command(server, "--no-defaults", "--user=root", "--datadir="+data, "--init-file="+words, fmt.Sprintf("--port=%d", port),
		"--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve",
		"--innodb-buffer-pool-size=32M")
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	return writeReplicas(t, dir, "mariadb", address)
}

func writeReplicas(t *testing.T, dir, mode string, addresses ...string) string {
	t.Helper()
	var nodes []map[string]any
	for i, address := range addresses {
		nodes = append(nodes, map[string]any{"name": fmt.Sprintf("replica%d", i+1), "role": "replica", "address": address})
	}
	text, err := json.Marshal(map[string]any{"channels": []string{"mychannel"}, "mode": mode, "nodes": nodes})
	require.NoError(t, err)
	file := filepath.Join(dir, "network.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

func TestMariaDBIsDrivenLikeALedger(t *testing.T) {
	network := startMariaDB(t)
	record := filepath.Join(t.TempDir(), "record")
	r, err := execute(context.Background(), t, "--network", network, "--rate", "200", "--workload", "insert", "--read-share", "0.5",
		"--accounts", "50", "--value-size", "100", "--warmup", "0s", "--duration", "1s", "--record", record)
	require.NoError(t, err)
	assert.Equal(t, "mariadb", r.System)
	assert.Equal(t, "kv", r.Chaincode)
	assert.Equal(t, []string{"replica1"}, r.Peers)
	assert.Equal(t, int64(200), r.Committed, r.Failures)
	assert.Empty(t, r.Stages)
	assert.Equal(t, int64(200), r.Kinds["get"].Committed+r.Kinds["insert"].Committed)

	o := &options{chaincode: "kv", clients: 1}
	direct, err := newMySQL(systemMariaDB, endpoint{address: addressOf(t, network)}, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, direct.close()) }()
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	assert.Len(t, lines, int(r.Kinds["insert"].Committed), "of what wrote")
	for _, line := range lines {
		key, _, _ := strings.Cut(line, " ")
		value, done := direct.ask(context.Background(), newCall("get", key))
		require.Empty(t, done.failedAt)
		assert.Len(t, value, 100, key)
	}

	for _, fresh := range []string{"connection", "process"} {
		t.Setenv(onceEnv, "1")
		r, err = execute(context.Background(), t, "--network", network, "--rate", "10", "--fresh", fresh, "--workload", "insert",
			"--warmup", "0s", "--duration", "500ms")
		require.NoError(t, err)
		assert.Equal(t, int64(5), r.Committed, r.Failures)
	}
	_, err = execute(context.Background(), t, "--network", network, "--rate", "10", "--chaincode", "smallbank")
	require.ErrorContains(t, err, `--chaincode "smallbank": system mariadb has kv, scm`)
}

func addressOf(t *testing.T, network string) string {
	t.Helper()
	described, err := readNetwork(network)
	require.NoError(t, err)
	return described.Nodes[0].Address
}

// TestAWriteThatGotNoConnectionIsNotLost: it was not sent.
func TestAWriteThatGotNoConnectionIsNotLost(t *testing.T) {
	server, err := newMySQL(systemMariaDB, endpoint{address: addressOf(t, startMariaDB(t))}, &options{chaincode: "kv", clients: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.close()) }()
	require.NoError(t, server.setup(context.Background()))
	require.NoError(t, server.places.Acquire(context.Background(), 1))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	o := server.do(ctx, 0, newCall("insert", "k", "v"))
	assert.Equal(t, stageOperation, o.failedAt)
	assert.Equal(t, "DEADLINE_EXCEEDED", o.code)
	assert.False(t, o.lost)
	server.places.Release(1)
	assert.Empty(t, server.do(context.Background(), 0, newCall("insert", "k", "v")).failedAt, "a place is free again")
}

func TestWhatASqlErrorMeans(t *testing.T) {
	server := &mysqlServer{reads: readers["kv"]}
	for _, c := range []struct {
		function string
		err      error
		want     outcome
	}{
		{"insert", nil, outcome{}},
		{"insert", &mysql.MySQLError{Number: 1062}, outcome{failedAt: stageCommit, code: "EXISTS"}},
		{"update", &mysql.MySQLError{Number: 1213}, outcome{failedAt: stageCommit, code: "DEADLOCK"}},
		{"insert", &mysql.MySQLError{Number: 1290}, outcome{failedAt: stageOperation, code: "ERROR_1290"}},
		{"insert", driver.ErrBadConn, outcome{failedAt: stageOperation, code: "UNAVAILABLE"}},
		{"insert", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, outcome{failedAt: stageOperation, code: "UNAVAILABLE"}},
		{"insert", &net.OpError{Op: "dial", Err: context.DeadlineExceeded}, outcome{failedAt: stageOperation, code: "UNAVAILABLE"}},
		{"insert", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, outcome{failedAt: stageCommit, code: codeUnknown, lost: true, unknown: true}},
		{"insert", mysql.ErrInvalidConn, outcome{failedAt: stageCommit, code: codeUnknown, lost: true, unknown: true}},
		{"insert", context.DeadlineExceeded, outcome{failedAt: stageCommit, code: codeUnknown, lost: true, unknown: true}},
		{"get", context.DeadlineExceeded, outcome{failedAt: stageOperation, code: "DEADLINE_EXCEEDED"}},
		{"get", mysql.ErrInvalidConn, outcome{failedAt: stageOperation, code: "UNAVAILABLE"}},
	} {
		found := server.judge(outcome{}, c.function, c.err)
		found.detail = ""
		assert.Equal(t, c.want, found, "%s: %v", c.function, c.err)
	}
}
