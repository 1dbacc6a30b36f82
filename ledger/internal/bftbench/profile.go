package bftbench

import (
	"errors"
	"os"
	"runtime/pprof"
	"strings"
)

// Names of a replica's profiles end with these.
const (
	cpuProfile   = ".pprof"
	allocProfile = ".allocs.pprof"
)

// profile is a CPU profile of this process that is being recorded, if any.
type profile struct{ file *os.File }

// turn begins one into a file; "": ends it, and writes beside it what the process has allocated.
func (p *profile) turn(file string) (err error) {
	if file != "" {
		if p.file, err = os.Create(file); err != nil {
			return err
		}
		return pprof.StartCPUProfile(p.file)
	}
	pprof.StopCPUProfile()
	allocations, err := os.Create(strings.TrimSuffix(p.file.Name(), cpuProfile) + allocProfile)
	if err != nil {
		return errors.Join(err, p.file.Close())
	}
	return errors.Join(p.file.Close(), pprof.Lookup("allocs").WriteTo(allocations, 0), allocations.Close())
}
