package mutanttest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
)

// all is the value of a variable: every mutant is tried, at a build for each.
const all = "QIOI_MUTANTS"

// schedules is how many have to find a mutant.
const schedules = 3000

// Suite is the mutants of a package's source, each of which its tests are to notice, or those of a package that rests on it.
type Suite struct {
	Mutants []Mutant
	// Package is the folder of the package whose tests are to notice, from this one's; "": they are this one's.
	Package string
	// Telling names those that are tried unless QIOI_MUTANTS=all asks for all of them, as make mutants does.
	Telling []string
	// Known has seeds of schedules that notice a mutant, as the test's log tells them: they spare the search, as long as
	// they do. All others are searched for.
	Known map[string]uint64
	// Test names the test that calls Notice.
	Test string
}

// Applies shows that each mutant is one of the source as it is.
func (s Suite) Applies(t *testing.T) {
	names := map[string]bool{}
	for _, m := range s.Mutants {
		_, err := m.sources()
		assert.NoError(t, err)
		assert.False(t, names[m.Name], "there are two of %s", m.Name)
		names[m.Name] = true
	}
	for _, name := range s.Telling {
		assert.Contains(t, names, name)
	}
	for name := range s.Known {
		assert.Contains(t, names, name)
	}
}

// tried are the mutants that this run is to try.
func (s Suite) tried() []Mutant {
	if os.Getenv(all) == "all" {
		return s.Mutants
	}
	return slices.DeleteFunc(slices.Clone(s.Mutants), func(m Mutant) bool { return !slices.Contains(s.Telling, m.Name) })
}

// Noticed shows that a script or a schedule notices each mutant. It fails where it has none to try.
func (s Suite) Noticed(t *testing.T) {
	tried := s.tried()
	require.NotEmpty(t, tried, "Telling names none of the mutants")
	s.uncache()
	// Most are noticed by a schedule, and all of these have the same control.
	control := sync.OnceValues(func() (string, error) { return sound.build(t, s.folder()) })
	for _, m := range tried {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s.notices(t, m, control)
		})
	}
}

// folder is that of the package whose tests are to notice.
func (s Suite) folder() string { return cmp.Or(s.Package, ".") }

// uncache has Go run this test anew when the other package's files have changed. Go keeps a test's result for as long as the
// files and folders are the same that the test itself has opened, and it is another process that runs the package's tests.
func (s Suite) uncache() {
	if s.Package != "" {
		_, _ = os.ReadDir(s.Package)
		_, _ = os.ReadDir(filepath.Join(s.Package, "testdata"))
	}
}

var (
	byScript   = regexp.MustCompile(`(?m)^noticed by testdata/\S+$`)
	bySchedule = regexp.MustCompile(`(?m)^noticed by seed (\d+): .*$`)
)

// sound is the source as it is.
var sound = Mutant{Name: "the sound core"}

// notices fails where the mutant's build has not said how it is noticed: it may have ended otherwise. It fails, too, where
// the sound core, which control builds, does not come through the schedule that is to notice.
func (s Suite) notices(t *testing.T, m Mutant, control func() (binary string, err error)) {
	known := "no seed"
	if seed, is := s.Known[m.Name]; is {
		known = strconv.FormatUint(seed, 10)
	}
	test := testOf{s.folder(), s.Test}
	output := m.run(t, test, known)
	if said := byScript.FindString(output); said != "" {
		t.Log(said)
		return
	}
	said := bySchedule.FindStringSubmatch(output)
	require.NotNil(t, said, "neither a script nor a schedule notices: %s", output)
	t.Log(said[0])
	binary, err := control()
	require.NoError(t, err)
	require.NotRegexp(t, bySchedule, sound.passes(t, binary, test, alone+said[1]), "the schedule is no control: the sound core fails in it, too")
}

// options are of the schedules that find mutants.
var options = sim.Options{Liars: true}

// Notice says, in a build that a suite makes, which script or schedule notices the mutant. Elsewhere it skips the test. The
// script is the name of one whose output is another; "": there is none.
func Notice(t *testing.T, script func(*testing.T) string, protocol sim.Protocol) {
	t.Helper()
	SkipUnlessMutated(t)
	noticed := func(seed uint64) bool {
		err := sim.Run(protocol, seed, options)
		if err != nil {
			fmt.Printf("noticed by seed %d: %q\n", seed, err)
		}
		return err != nil
	}
	first, only := strings.CutPrefix(os.Getenv(variable), alone)
	if only {
		seed, err := strconv.ParseUint(first, 10, 64)
		require.NoError(t, err)
		noticed(seed)
		return
	}
	if name := script(t); name != "" {
		fmt.Printf("noticed by testdata/%s\n", name)
		return
	}
	if seed, err := strconv.ParseUint(first, 10, 64); err == nil && noticed(seed) {
		return
	}
	for seed := range uint64(schedules) {
		if noticed(seed) {
			return
		}
	}
}
