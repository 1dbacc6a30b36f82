// Package durable writes files so that a crash leaves a whole one or none, and makes the folders for them.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// Making is the name that a file has in its folder until it is whole. A crash may leave it; the
	// next file that is made there overwrites it.
	Making = "making"
	// chunk is how much is written between two syncs: a disk that also serves the chain's own
	// syncs must never have much of a large file before it.
	chunk = 4 << 20
)

// Replace puts a file into a folder, over what has its name: write gives its content. It is
// durable, name included, when Replace returns nil. After an error the folder is as it was, or
// where only syncing the name has failed, has the new file. rest may be nil.
func Replace(dir, name string, rest *Rest, write func(*Writer) error) error {
	return replace(filepath.Join(dir, Making), filepath.Join(dir, name), rest, write)
}

// WriteFile is Replace for a folder that others write to, too. A file that is there keeps its mode and its owner; where it
// cannot keep them it stays as it is.
func WriteFile(path string, content []byte) error {
	return replace(path+"."+Making, path, nil, func(w *Writer) error {
		if found, err := os.Stat(path); err == nil {
			owner := found.Sys().(*syscall.Stat_t)
			if err := errors.Join(w.file.Chown(int(owner.Uid), int(owner.Gid)), w.file.Chmod(found.Mode())); err != nil {
				return err
			}
		}
		_, err := w.Write(content)
		return err
	})
}

func replace(making, path string, rest *Rest, write func(*Writer) error) error {
	file, err := os.OpenFile(making, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	w := &Writer{file: file, buf: make([]byte, 0, 64<<10), rest: rest, since: time.Now()}
	err = write(w)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(making, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(making)) // the disk may be full
	}
	return SyncDir(filepath.Dir(path))
}

// Writer writes a large file in chunks, each durable before the next. What one Write brings is never parted.
type Writer struct {
	file     *os.File
	buf      []byte
	unsynced int
	rest     *Rest
	since    time.Time // the last rest
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	if len(w.buf)+len(b) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	w.buf = append(w.buf, b...)
	return len(b), nil
}

func (w *Writer) flush() error {
	n, err := w.file.Write(w.buf)
	w.buf = w.buf[:0]
	if w.unsynced += n; err == nil && w.unsynced >= chunk {
		w.unsynced = 0
		err = w.file.Sync()
	}
	w.rest.after(time.Since(w.since))
	w.since = time.Now()
	return err
}

// MakeDir makes a folder, and those above it that are missing, durably: a power cut takes what lies in a folder along
// with its name.
func MakeDir(dir string) error {
	var missing []string
	for at := filepath.Clean(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		missing = append(missing, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, made := range missing {
		if err := SyncDir(filepath.Dir(made)); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
