package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// FromDisk has what is read of a file from now on be what its disk has. After a sync that failed, Linux marks the pages
// that the disk refused as clean, and shows them to every reader; neither another sync nor writing the same bytes over them
// brings them to the disk (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020, section 3). So
// the pages are dropped, but for those that another process has mapped. What was never synced is synced first.
func FromDisk(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err = unix.Fdatasync(int(file.Fd())); err == nil {
		err = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("%s: sync: %w", path, err)
	}
	return nil
}
