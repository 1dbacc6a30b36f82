package mutanttest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// Noticed shows that a script or a schedule notices each mutant.
func (s Suite) Noticed(t *testing.T) {
	telling := map[string]bool{}
	for _, name := range s.Telling {
		telling[name] = true
	}
	s.uncache()
	for _, m := range s.Mutants {
		if telling[m.Name] || os.Getenv(all) == "all" {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				s.notices(t, m)
			})
		}
	}
}

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

// notices fails where the mutant's build has not said how it is noticed: it may have ended otherwise. It fails, too, where
// the sound core does not come through the schedule that is to notice.
func (s Suite) notices(t *testing.T, m Mutant) {
	known := "no seed"
	if seed, is := s.Known[m.Name]; is {
		known = strconv.FormatUint(seed, 10)
	}
	test := testOf{cmp.Or(s.Package, "."), s.Test}
	output := m.run(t, test, known)
	if said := byScript.FindString(output); said != "" {
		t.Log(said)
		return
	}
	said := bySchedule.FindStringSubmatch(output)
	require.NotNil(t, said, "neither a script nor a schedule notices: %s", output)
	t.Log(said[0])
	control := Mutant{Name: "the sound core"}.run(t, test, alone+said[1])
	require.NotRegexp(t, bySchedule, control, "the schedule is no control: the sound core fails in it, too")
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
