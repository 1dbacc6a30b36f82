// Package porttest gives tests neighbouring ports, for networks whose nodes have fixed ports.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Size is how many neighbouring ports a test gets.
const Size = 40

// All runs lie below the ports of the Python tests (tests/support/ports.py, from 19000 on), which do not listen on theirs
// all the time, and below the range from which the kernel hands out ports by itself.
const (
	lowest = 12000
	runs   = 170
)

// Take finds Size neighbouring free ports and returns the first. They stay this test's until it ends,
// also while nothing listens on them, such as those of a node that was killed: the port behind them is held meanwhile,
// and every test takes whole runs.
func Take(t testing.TB) int {
	t.Helper()
	for range 100 {
		base := lowest + rand.IntN(runs)*(Size+1)
		claim, err := listen(base + Size)
		if err != nil {
			continue
		}
		if !free(base) {
			_ = claim.Close()
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return base
	}
	t.Fatal("no free ports")
	return 0
}

// Within requires that addresses lie on the ports that Take gave; empty ones are none.
func Within(t testing.TB, base int, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		if address == "" {
			continue
		}
		_, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		port, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.True(t, base <= port && port < base+Size, "%s is not on the %d ports from %d on", address, Size, base)
	}
}

func free(base int) bool {
	for port := base; port < base+Size; port++ {
		l, err := listen(port)
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
