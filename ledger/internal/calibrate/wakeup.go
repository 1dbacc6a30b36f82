package calibrate

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// wakeUps sends a byte to and fro between two threads that block in the kernel. The pipes are
// plain descriptors: Go's own files would park goroutines and leave the threads awake.
func wakeUps() (float64, error) {
	var there, back [2]int
	if err := unix.Pipe2(there[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(there[0])
	if err := unix.Pipe2(back[:], unix.O_CLOEXEC); err != nil {
		unix.Close(there[1])
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(back[0])

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer unix.Close(back[1])
		echo(there[0], back[1])
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buffer := make([]byte, 1)
	trip, err := median(func() error {
		if _, err := unix.Write(there[1], buffer); err != nil {
			return err
		}
		_, err := unix.Read(back[0], buffer)
		return err
	})
	unix.Close(there[1])
	<-ended
	return trip / 2, err
}

// echo answers each byte until the sender closes its end.
func echo(from, to int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buffer := make([]byte, 1)
	for {
		if n, err := unix.Read(from, buffer); n != 1 || err != nil {
			return
		}
		if _, err := unix.Write(to, buffer); err != nil {
			return
		}
	}
}
