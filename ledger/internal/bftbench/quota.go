package bftbench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// groups gives each replica a group of processes with a quota of CPU time, so that one which does nothing does not give
// its part to the others.
type groups struct {
	folder string
	unify  bool // cgroup v2
	quota  float64
	made   []string
	// enabled are the files by which this run has given groups the controller cpu.
	enabled []string
}

// period is short, so that a replica which has used up its part waits for a few milliseconds only.
const period = 10_000 // microseconds

// newGroups makes none where there is no quota.
func newGroups(quota float64) (*groups, error) {
	g := &groups{quota: quota}
	if quota == 0 {
		return g, nil
	}
	root := "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root, g.unify = "/sys/fs/cgroup", true
	}
	sweep(root)
	g.folder = filepath.Join(root, groupOf(os.Getpid()))
	if err := g.make(g.folder); err != nil {
		return nil, fmt.Errorf("a quota needs control groups: %w", err)
	}
	if g.unify {
		if err := errors.Join(g.enable(root), g.enable(g.folder)); err != nil {
			return nil, errors.Join(fmt.Errorf("a quota needs the controller cpu: %w", err), g.remove())
		}
	}
	return g, nil
}

const groupPrefix = "qioi-bft-bench-"

// groupOf names the group of a process that measures.
func groupOf(pid int) string { return groupPrefix + strconv.Itoa(pid) }

// sweep removes the groups of runs that were killed. Where one of them is used, as a process of another namespace may that
// has its number, the kernel keeps it.
func sweep(root string) {
	left, _ := filepath.Glob(filepath.Join(root, groupPrefix+"*"))
	for _, folder := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(folder), groupPrefix))
		if err != nil || pid != os.Getpid() && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		replicas, _ := filepath.Glob(filepath.Join(folder, "replica*"))
		for _, one := range append(replicas, folder) {
			_ = os.Remove(one) // who needs the name is told
		}
	}
}

// enable gives the groups in a folder the controller cpu, unless they have it.
func (g *groups) enable(folder string) error {
	file := filepath.Join(folder, "cgroup.subtree_control")
	has, err := os.ReadFile(file)
	if err != nil || slices.Contains(strings.Fields(string(has)), "cpu") {
		return err
	}
	if err := os.WriteFile(file, []byte("+cpu"), 0); err != nil {
		return err
	}
	g.enabled = append(g.enabled, file)
	return nil
}

func (g *groups) make(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	g.made = append(g.made, folder)
	return nil
}

// add puts a replica's process into a group of its own.
func (g *groups) add(id bft.ID, pid int) error {
	if g.quota == 0 {
		return nil
	}
	folder := filepath.Join(g.folder, fmt.Sprintf("replica%d", id))
	if err := g.make(folder); err != nil {
		return err
	}
	values := map[string]string{"cpu.cfs_period_us": strconv.Itoa(period), "cpu.cfs_quota_us": strconv.Itoa(int(g.quota * period))}
	if g.unify {
		values = map[string]string{"cpu.max": fmt.Sprintf("%d %d", int(g.quota*period), period)}
	}
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(value), 0); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// remove takes the groups away once their processes have ended, and the controller from where it was not.
func (g *groups) remove() error {
	var errs []error
	for i := len(g.made) - 1; i >= 0; i-- {
		errs = append(errs, os.Remove(g.made[i]))
	}
	for i := len(g.enabled) - 1; i >= 0; i-- {
		err := os.WriteFile(g.enabled[i], []byte("-cpu"), 0)
		// One of a group that is removed is gone; one that others share out further meanwhile is busy, and stays.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EBUSY) {
			errs = append(errs, err)
		}
	}
	g.made, g.enabled = nil, nil
	return errors.Join(errs...)
}
