// Package processtest is for tests that start programs and end them.
package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Mortal has a process end with the tests, also where these are killed: prctl(2), PR_SET_PDEATHSIG. That is sent when
// the thread that started it ends, and Go ends no thread but one that a goroutine has locked.
func Mortal() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// End sends a process a signal and waits for it; wait is its Wait. The error is that something else has ended it: SIGKILL
// leaves it no exit status, and after any other signal it has to exit with 0.
func End(cmd *exec.Cmd, by os.Signal, wait func() error) error {
	sent := cmd.Process.Signal(by)
	_ = wait() // the state says more
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case by == syscall.SIGKILL && status.Signaled() && status.Signal() == syscall.SIGKILL:
	case by != syscall.SIGKILL && sent == nil && cmd.ProcessState.Success():
	default:
		return fmt.Errorf("it was not ended by the signal %q: %s", by, cmd.ProcessState)
	}
	return nil
}
