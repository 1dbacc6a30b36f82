package bftbench

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestARunTakesBackTheControllerThatItGave, and leaves alone what was there before it.
func TestARunTakesBackTheControllerThatItGave(t *testing.T) {
	for before, want := range map[string][2]string{
		"cpuset memory pids\n": {"+cpu", "-cpu"},
		"cpuset cpu memory\n":  {"cpuset cpu memory\n", "cpuset cpu memory\n"},
		"":                     {"+cpu", "-cpu"},
	} {
		root := t.TempDir()
		file := filepath.Join(root, "cgroup.subtree_control")
		require.NoError(t, os.WriteFile(file, []byte(before), 0o600))
		is := func() string {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			return string(raw)
		}
		g := &groups{}
		require.NoError(t, g.enable(root))
		assert.Equal(t, want[0], is(), before)
		require.NoError(t, g.remove())
		assert.Equal(t, want[1], is(), before)
		require.NoError(t, g.remove(), "there is nothing more to take back")
	}
}

// TestWhatKilledRunsHaveLeftIsRemoved, but for what others use, or may.
func TestWhatKilledRunsHaveLeftIsRemoved(t *testing.T) {
	root := t.TempDir()
	own, dead, alive := os.Getpid(), math.MaxInt32, os.Getppid()
	folder := func(parts ...string) string {
		made := filepath.Join(append([]string{root}, parts...)...)
		require.NoError(t, os.MkdirAll(made, 0o700))
		return made
	}
	gone := []string{folder(groupOf(dead)), folder(groupOf(own))}
	folder(groupOf(dead), "replica1")
	folder(groupOf(dead), "replica12")
	folder(groupOf(own), "replica1")
	kept := []string{
		folder(groupOf(alive), "replica1"), folder(groupOf(dead)+"x", "replica1"), folder("other"),
		folder(groupOf(dead-1), "replica1", "in use"), // as the kernel refuses a group with processes
	}
	sweep(root)
	for _, one := range gone {
		assert.NoDirExists(t, one)
	}
	for _, one := range kept {
		assert.DirExists(t, one)
	}
}

func TestWhatIsRemovedWithItsFolderIsNoError(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "run")
	g := &groups{}
	require.NoError(t, g.make(folder))
	file := filepath.Join(folder, "cgroup.subtree_control")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, g.enable(folder))
	require.NoError(t, os.Remove(file)) // as the kernel does with the group's folder
	require.NoError(t, g.remove())
	assert.NoDirExists(t, folder)
}
