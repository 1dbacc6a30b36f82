// Package mapped guards reading of files that are mapped into memory. Of a page that the disk does not give, or that a
// shortened file no longer has, the kernel tells by a signal, which would end the process.
package mapped

import (
	"fmt"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Guard calls read, and makes such a signal an error: EIO, with the offset in data, which begins where the mapping does.
// Other panics, and faults elsewhere, are passed on. A goroutine that read starts is not guarded.
func Guard(data []byte, read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		what := recover()
		if what == nil {
			return
		}
		fault, is := what.(interface{ Addr() uintptr })
		if !is {
			panic(what)
		}
		offset := fault.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(data)))
		if offset >= uintptr(len(data)) {
			panic(what)
		}
		err = fmt.Errorf("read at offset %d: %w", offset, syscall.EIO)
	}()
	read()
	return nil
}
