package bftbench

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// allowed are the numbers of the processors that this process may run on.
func allowed() (processors []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for number := 0; len(processors) < set.Count(); number++ {
		if set.IsSet(number) {
			processors = append(processors, number)
		}
	}
	return processors, nil
}

// confine has all threads of this process, and those that they start, run on these processors. What it returns has them run
// where they ran before.
func confine(processors []int) (restore func() error, err error) {
	before, err := allowed()
	if err != nil {
		return nil, err
	}
	return func() error { return move(before) }, move(processors)
}

func move(processors []int) error {
	var set unix.CPUSet
	for _, number := range processors {
		set.Set(number)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		number, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(number, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("sched_setaffinity: %w", err)
		}
	}
	return nil
}
