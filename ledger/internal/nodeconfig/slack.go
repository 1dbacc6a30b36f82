package nodeconfig

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/qioi/qioi/ledger/internal/ops"
)

var log = ops.Logger("nodeconfig")

// timerSlack is how much later than asked for the kernel may end a sleep of a process that runs Go on one thread.
//
// The Go runtime's monitor thread wakes with every system call of a process that was idle, and then every 20 us until
// the process is idle again. Where several nodes share few cores each of these wake-ups takes a core from somebody
// who has work: they were a fifth of the CPU of a transaction. With slack it still does its work (it takes the
// processor from a system call that does not end, and from a goroutine that runs too long), only less often.
const timerSlack = time.Millisecond

// prctl(2)
const (
	prSetTimerSlack = 29
	prGetTimerSlack = 30
)

// begun is the folder that this program was started in; empty: it may not start anew.
var begun string

// MayRestart lets SlackenTimers start this process's program anew. It is for the init function of the main package
// alone: a test's program would begin all its tests again. It keeps main on the process's first thread until
// SlackenTimers; what never calls that are subcommands that do little or only wait there.
func MayRestart() {
	var err error
	if begun, err = os.Getwd(); err != nil {
		begun = "" // nothing is lost but some CPU
		return
	}
	runtime.LockOSThread()
}

// SlackenTimers gives this process slack, where LimitProcessors has left it one thread for Go. (With several, a thread
// that looks for work sleeps for 3 us at times; those sleeps must stay short.) A thread has the slack of the one that
// made it, and the monitor is older than all of ours: so the program begins again, in the same process, with the
// slack of this thread. As much slack or more that the process was started with (TimerSlackNSec= of systemd) is left
// as it is, less is raised. Where a sandbox forbids any of this the process goes on without. It is for main's
// goroutine: what a parent has set for the first thread, such as the signal that comes at its death, no other thread
// has, and would be lost. What the program has read before is read again: a pipe for a file of its options would be
// empty then.
func SlackenTimers() {
	if begun == "" {
		return
	}
	defer runtime.UnlockOSThread()
	if runtime.GOMAXPROCS(0) > 1 || syscall.Gettid() != os.Getpid() {
		return
	}
	usual := slack()
	if usual <= 0 || usual >= timerSlack || !setSlack(timerSlack) {
		return
	}
	if err := restart(); err != nil {
		log.Warnf("no slack for timers, which costs CPU: %s", err)
		setSlack(usual)
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
	return errors.Join(syscall.Exec(program, os.Args, os.Environ()), os.Chdir(now))
}

// slack is this thread's.
func slack() time.Duration {
	ns, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, prGetTimerSlack, 0, 0)
	if failed != 0 {
		return 0
	}
	return time.Duration(ns)
}

func setSlack(d time.Duration) bool {
	_, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, uintptr(d), 0)
	return failed == 0
}
