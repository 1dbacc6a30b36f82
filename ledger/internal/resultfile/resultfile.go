// Package resultfile tells what a measurement has found, and writes it into the files that its command was given.
package resultfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/durable"
)

// stdout in a file's place is standard output.
const stdout = "-"

// Result is what a measurement has found.
type Result interface {
	WriteJSON(io.Writer) error
	WriteText(io.Writer) error
}

// Check errs before a measurement where its result could not be written after it: into the file of Tell, and into others of
// Write. A file that is there keeps what it has, so that a measurement that fails does not take an older result away. ""
// names no file.
func Check(told string, others ...string) error {
	if slices.Contains(others, stdout) {
		return fmt.Errorf("result %q: the name of a file is accepted (standard output is for --json alone)", stdout)
	}
	for _, name := range append(others, told) {
		if name == "" || name == stdout {
			continue
		}
		if err := check(name); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	return nil
}

func check(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case err == nil:
		return errors.Join(file.Close(), os.Remove(name))
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	found, err := os.Stat(name)
	if err != nil || !found.Mode().IsRegular() && !found.IsDir() {
		return nil // a pipe's reader would take its being opened and closed for the whole result
	}
	if file, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return err
	}
	return file.Close()
}

// Write puts a result into a file, over what it has. "" is no file.
func Write(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	var whole bytes.Buffer // the file keeps what it has where write fails
	if err := write(&whole); err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	if err := put(name, whole.Bytes()); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// put replaces a file as a whole, so that a disk that fails does not take an older result away. A pipe, a device and what a
// link leads to are written in place; so is a file that cannot be replaced.
func put(name string, content []byte) error {
	found, err := os.Lstat(name)
	if err != nil || found.Mode().IsRegular() {
		err = durable.WriteFile(name, content)
		if err == nil || !irreplaceable(err) {
			return err
		}
	}
	return os.WriteFile(name, content, 0o644)
}

// irreplaceable tells whether a file may be written in place though it cannot be replaced: its folder takes no other or is
// read-only, its name leaves no room for a longer one, its owner is another, or one that the user's namespace does not
// know (EINVAL), or it is a mount. A disk that fails to write says none of this, or refuses to open the file, too.
func irreplaceable(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EINVAL, syscall.EBUSY,
	}, func(one syscall.Errno) bool { return errors.Is(err, one) })
}

// Tell writes a result for people to out, and as JSON into a file, whichever of these fails. With "-" for the file out
// gets the JSON, instead of text; "" is no file.
func Tell(found Result, file string, out io.Writer) error {
	if file == stdout {
		return found.WriteJSON(out)
	}
	return errors.Join(found.WriteText(out), Write(file, found.WriteJSON))
}
