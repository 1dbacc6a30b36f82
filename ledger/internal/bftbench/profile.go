package bftbench

import (
	"os"
	"runtime/pprof"
)

// profile is a CPU profile of this process that is being recorded, if any.
type profile struct{ file *os.File }

// turn begins one into a file; "": ends it.
func (p *profile) turn(file string) (err error) {
	if file == "" {
		pprof.StopCPUProfile()
		return p.file.Close()
	}
	if p.file, err = os.Create(file); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}
