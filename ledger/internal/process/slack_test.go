package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slackened is set where this test's program does nothing but show itself, to the processors that it shall use;
// only with restarts it may start anew. It writes to connections as far apart as writesApart says.
const (
	slackened   = "QIOI_TEST_SLACKENED"
	restarts    = "QIOI_TEST_RESTARTS"
	writesApart = "QIOI_TEST_WRITES_APART"
)

// A program's init functions run on its first thread.
func init() {
	if processors, err := strconv.Atoi(os.Getenv(slackened)); err == nil {
		if os.Getenv(restarts) != "" {
			MayRestart()
		}
		began := begun
		_ = os.Chdir("/") // as `qioi-ledger node` leaves the folder that it is started in
		limitProcessors(processors)
		gap, _ := time.ParseDuration(os.Getenv(writesApart))
		slackenTimers(gap)
		fmt.Printf("pid %d slack %s, most %s, begun in %s, signal %d, options %q\n", os.Getpid(), slack(), mostSlack(), began, deathSignal(), os.Getenv("GODEBUG"))
		os.Exit(0)
	}
}

func TestTheMonitorIsSlackOnOneProcessor(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	runtime.LockOSThread() // the parent whose death counts is this thread
	defer runtime.UnlockOSThread()
	for _, of := range []struct {
		processors int
		gap, want  time.Duration
		options    string
	}{
		{1, 0, leastSlack + 1, "gctrace=0," + awake}, {1, 8 * time.Millisecond, 16*time.Millisecond + 1, "gctrace=0," + awake},
		{2, 0, slack(), "gctrace=0"}, {2, 8 * time.Millisecond, slack(), "gctrace=0"},
	} {
		cmd := show(t, of.processors, restarts+"=1", writesApart+"="+of.gap.String(), "GODEBUG=gctrace=0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Dir = dir
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		// The same process as before, also to its parent, and where its arguments make sense.
		assert.Equal(t, fmt.Sprintf("pid %d slack %s, most %s, begun in %s, signal %d, options %q\n", cmd.Process.Pid, slack(), told(of.want), dir, syscall.SIGKILL, of.options), string(out), "%+v", of)
	}
}

func TestSlackGrowsWithTheGapBetweenWrites(t *testing.T) {
	for gap, want := range map[time.Duration]time.Duration{
		0: 3 * time.Millisecond, time.Millisecond: 3 * time.Millisecond, 4 * time.Millisecond: 8 * time.Millisecond,
		8 * time.Millisecond: 16 * time.Millisecond, 100 * time.Millisecond: 16 * time.Millisecond,
	} {
		assert.Equal(t, want+time.Nanosecond, timerSlack(gap), "%s", gap)
	}
}

func TestOnlyAProgramThatMayStartsAnew(t *testing.T) {
	cmd := show(t, 1, "GODEBUG=")
	out, err := cmd.CombinedOutput() // it does not try, either: that would be in its log
	require.NoError(t, err, "%s", out)
	assert.Equal(t, fmt.Sprintf("pid %d slack %s, most %s, begun in , signal 0, options \"\"\n", cmd.Process.Pid, slack(), told(slack())), string(out))
}

// show makes this test's program show itself.
func show(t *testing.T, processors int, environment ...string) *exec.Cmd {
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("%s=%d", slackened, processors), "GOMAXPROCS="), environment...)
	return cmd
}

const untold = "untold"

// mostSlack is the most that a thread of this process has; the kernel tells only root (CAP_SYS_NICE) of other threads.
func mostSlack() string {
	var most time.Duration
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		switch {
		case errors.Is(err, fs.ErrPermission):
			return untold
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH): // the thread has ended
			continue
		case err != nil:
			return err.Error() // which no test expects
		}
		ns, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		most = max(most, time.Duration(ns))
	}
	return most.String()
}

// told is what mostSlack is where it is to be most.
func told(most time.Duration) string {
	if mostSlack() == untold {
		return untold
	}
	return most.String()
}

// deathSignal is what this thread gets when its parent ends.
func deathSignal() (signal int32) {
	const prGetPdeathsig = 2
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prGetPdeathsig, uintptr(unsafe.Pointer(&signal)), 0)
	return signal
}

func TestTheUsersOptionsOfTheRuntimeStay(t *testing.T) {
	for name, c := range map[string]struct{ before, after []string }{
		"none":      {[]string{"A=b"}, []string{"A=b", "GODEBUG=" + awake}},
		"empty":     {[]string{"GODEBUG=", "A=b"}, []string{"A=b", "GODEBUG=" + awake}},
		"another":   {[]string{"GODEBUG=gctrace=1", "A=b"}, []string{"A=b", "GODEBUG=gctrace=1," + awake}},
		"the same":  {[]string{"GODEBUG=schedtrace=1000,gctrace=1"}, []string{"GODEBUG=schedtrace=1000,gctrace=1"}},
		"its own":   {stayAwake([]string{"A=b"}), []string{"A=b", "GODEBUG=" + awake}},
		"different": {[]string{"MYGODEBUG=x"}, []string{"MYGODEBUG=x", "GODEBUG=" + awake}},
	} {
		assert.Equal(t, c.after, stayAwake(c.before), name)
	}
}
