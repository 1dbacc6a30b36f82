package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm is a timer that is on time. An idle Go process sleeps in whole milliseconds, rounded up
// (runtime/netpoll_epoll.go), and after Tune later still by the slack of the thread that sleeps. The kernel's
// timerfd_create(2) does neither. It wakes the process, and with it every other timer of the process that is due.
type Alarm struct {
	// C has a value after each time that the alarm was set for, unless the one before is still there.
	C    <-chan struct{}
	file *os.File
	raw  syscall.RawConn
}

// NewAlarm makes one that is not set.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	rings := make(chan struct{}, 1)
	a := &Alarm{C: rings, file: os.NewFile(uintptr(fd), "timerfd")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, a.file.Close())
	}
	go func() {
		var expirations [8]byte
		for {
			if _, err := a.file.Read(expirations[:]); err != nil {
				return // it was closed
			}
			select {
			case rings <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// Set has it ring once, that much later, in place of what it was set for before. One that is closed stays silent.
func (a *Alarm) Set(after time.Duration) {
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	// An error means that it is closed: nothing else can fail with these arguments.
	_ = a.raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, spec, nil) })
}

// Stop has it not ring for what it was set for.
func (a *Alarm) Stop() {
	_ = a.raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{}, nil) })
}

// Close ends it; C gets no more values.
func (a *Alarm) Close() error { return a.file.Close() }
