package process

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/qioi/qioi/ledger/internal/ops"
)

var log = ops.Logger("process")

// Slack is how much later than asked for the kernel may end a sleep of the Go runtime's monitor, in a process that
// runs Go on one thread.
//
// The monitor wakes with every system call of a process that was idle, and then every 20 us until the process is idle
// again. Where several nodes share few cores each of these wake-ups takes a core from a process that has work: they
// were a fifth of the CPU of a transaction. With slack it still does its work (it takes the processor from a system
// call that does not end, and from a goroutine that runs too long), only less often: while a slow disk syncs, the rest
// of a process waits for up to twice this time. Where each message may wait for a gap anyway, some wait that long
// already.
const (
	leastSlack = 3 * time.Millisecond
	slackBound = 16 * time.Millisecond
	slackGaps  = 2
)

// timerSlack is the slack in a process that writes to connections gap apart (0: at once). Its last digit tells it from
// a value that another program has set.
func timerSlack(gap time.Duration) time.Duration {
	return min(max(leastSlack, slackGaps*gap), slackBound) + time.Nanosecond
}

// awake is an option of the Go runtime (GODEBUG) that keeps its monitor from sleeping until a system call wakes it, which
// happens some hundred times a second under load: with it the monitor looks every 10 ms by itself. The option is made for
// traces of the scheduler, of which it prints one line every 25 days of the host's uptime.
const awake = "schedtrace=2147483647"

// prctl(2)
const (
	prSetTimerSlack = 29
	prGetTimerSlack = 30
)

// begun is the folder that this program was started in; empty: it may not start anew.
var begun string

// MayRestart lets Tune start this process's program anew. Only the init function of the main package calls it: a test's
// program would begin all its tests again. It keeps main on the process's first thread until Tune. Subcommands that never
// call Tune do little, or only wait on that thread.
func MayRestart() {
	var err error
	if begun, err = os.Getwd(); err != nil {
		begun = "" // nothing is lost but some CPU
		return
	}
	runtime.LockOSThread()
}

// slackenTimers gives the monitor slack, where limitProcessors has left this process one thread for Go. (With several
// threads, one that looks for work sleeps for 3 us at times; those sleeps must stay short.)
//
// A thread inherits the slack of the thread that made it, and the monitor is older than any code of ours. So the program
// begins again, in the same process, with the slack of this thread, which then gets its usual slack back. A process that
// was started with as much slack or more (TimerSlackNSec= of systemd) keeps it. Where a sandbox forbids any of this the
// process goes on without.
//
// It is for main's goroutine: the first thread alone has what a parent has set for it, such as the signal at the parent's
// death, and would lose it. Input that the program has read before is read again, so a pipe of options would be empty.
func slackenTimers(gap time.Duration) {
	if begun == "" {
		return
	}
	defer runtime.UnlockOSThread()
	if runtime.GOMAXPROCS(0) > 1 || syscall.Gettid() != os.Getpid() {
		return
	}
	usual, wanted := slack(), timerSlack(gap)
	if usual == wanted { // the monitor has it
		setSlack(0)
		precise.Store(int64(slack()))
		return
	}
	if usual <= 0 || usual > wanted || !setSlack(wanted) {
		return
	}
	if err := restart(); err != nil {
		log.Warnf("no slack for timers, which costs CPU: %s", err)
		setSlack(usual)
	}
}

// precise is the slack of threads that are not the monitor, in nanoseconds; 0: that of all is as it was.
var precise atomic.Int64

// PreciseTimers is for a goroutine that is about to wait for a timer that must be on time. A thread that the monitor has
// made has the monitor's slack; the calling thread, which sleeps next, has none from here on.
func PreciseTimers() {
	if usual := precise.Load(); usual > 0 {
		setSlack(time.Duration(usual))
	}
}

// restart does not return unless it fails.
func restart() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	now, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(begun); err != nil { // paths among the arguments are relative to it
		return err
	}
	return errors.Join(syscall.Exec(program, os.Args, stayAwake(os.Environ())), os.Chdir(now))
}

// stayAwake adds awake to an environment, unless its user traces the scheduler.
func stayAwake(environ []string) []string {
	out, options := []string{}, awake
	for _, each := range environ {
		value, is := strings.CutPrefix(each, "GODEBUG=")
		switch {
		case !is:
			out = append(out, each)
		case strings.Contains(value, "schedtrace="):
			options = value
		case value != "":
			options = value + "," + awake
		}
	}
	return append(out, "GODEBUG="+options)
}

// slack is this thread's.
func slack() time.Duration {
	ns, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, prGetTimerSlack, 0, 0)
	if failed != 0 {
		return 0
	}
	return time.Duration(ns)
}

// setSlack sets this thread's; 0 stands for that of the thread that made it.
func setSlack(d time.Duration) bool {
	_, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, uintptr(d), 0)
	return failed == 0
}
