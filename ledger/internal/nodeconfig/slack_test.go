package nodeconfig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slackened is set where this test's program does nothing but show itself, to the processors that it shall use.
const slackened = "QIOI_TEST_SLACKENED"

// A program's init functions run on its first thread.
func init() {
	if processors, err := strconv.Atoi(os.Getenv(slackened)); err == nil {
		MayRestart()
		began := begun
		_ = os.Chdir("/") // as `qioi-ledger node` leaves the folder that it is started in
		LimitProcessors(processors)
		SlackenTimers()
		fmt.Printf("pid %d slack %s, begun in %s, signal %d\n", os.Getpid(), slack(), began, deathSignal())
		os.Exit(0)
	}
}

func TestTimersAreSlackOnOneProcessor(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	runtime.LockOSThread() // the parent whose death counts is this thread
	defer runtime.UnlockOSThread()
	for processors, want := range map[int]time.Duration{1: timerSlack, 2: slack()} {
		cmd := exec.Command(program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("%s=%d", slackened, processors), "GOMAXPROCS=")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		// The same process as before, also to its parent, and where its arguments make sense.
		assert.Equal(t, fmt.Sprintf("pid %d slack %s, begun in %s, signal %d\n", cmd.Process.Pid, want, dir, syscall.SIGKILL), string(out), "%d processors", processors)
	}
}

func TestOnlyAProgramThatMayStartsAnew(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	before := slack()
	SlackenTimers() // or this never returns
	assert.Equal(t, before, slack())
}

// deathSignal is what this thread gets when its parent ends.
func deathSignal() (signal int32) {
	const prGetPdeathsig = 2
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prGetPdeathsig, uintptr(unsafe.Pointer(&signal)), 0)
	return signal
}
