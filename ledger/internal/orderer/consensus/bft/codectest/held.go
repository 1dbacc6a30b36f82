package codectest

import (
	"runtime"
	"weak"
)

// Held reports, whenever it is asked, whether anything still holds the memory that raw is a part of.
func Held(raw []byte) (held func() bool) {
	first := weak.Make(&raw[0])
	return func() bool {
		runtime.GC()
		return first.Value() != nil
	}
}
