package mutanttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "source.go")
	require.NoError(t, os.WriteFile(file, []byte("a b b c"), 0o600))
	files, err := New("two changes", file, "a", "A").And(file, "c", "C").sources()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{file: "A b b C"}, files)
	for name, m := range map[string]Mutant{
		"missing":        New("", file, "d", "D"),
		"twice":          New("", file, "b", "B"),
		"no change":      New("", file, "a", "a"),
		"changed before": New("", file, "a", "A").And(file, "a", "B"),
		"no such file":   New("", file+"x", "a", "A"),
	} {
		_, err := m.sources()
		assert.Error(t, err, name)
	}
}

// TestWhatDoesNotRunDoesNotPass: Go's own status is 0 where there is no such test, or where it was skipped.
func TestWhatDoesNotRunDoesNotPass(t *testing.T) {
	binary, err := New("an error in other words", "mutant.go", `"%s: %s has %d times %q`, `"%s: %s: %d times %q`).build(t, ".")
	require.NoError(t, err)
	for test, passes := range map[string]bool{
		"TestOutcomes/passes": true, "TestOutcomes/fails": false, "TestOutcomes/skipped": false, "TestOutcomes/missing": false, "TestMissing": false,
	} {
		said, err := try(t, binary, testOf{".", test}, "no seed")
		assert.Equal(t, passes, err == nil, "%s: %s", test, said)
	}
}

// TestOutcomes is for TestWhatDoesNotRunDoesNotPass, which runs it in a mutant's build.
func TestOutcomes(t *testing.T) {
	SkipUnlessMutated(t)
	t.Run("passes", func(*testing.T) {})
	t.Run("fails", func(t *testing.T) { t.Fail() })
	t.Run("skipped", func(t *testing.T) { t.SkipNow() })
}

// TestWhatIsNotNamedIsTriedOnlyWithAll.
func TestWhatIsNotNamedIsTriedOnlyWithAll(t *testing.T) {
	s := Suite{Mutants: []Mutant{{Name: "a"}, {Name: "b"}}, Telling: []string{"b"}}
	t.Setenv(all, "")
	assert.Equal(t, []Mutant{{Name: "b"}}, s.tried())
	assert.Len(t, s.Mutants, 2)
	t.Setenv(all, "all")
	assert.Equal(t, s.Mutants, s.tried())
}

// TestMutantsAreOfOnesOwn: what is added to one does not show in another that begins the same.
func TestMutantsAreOfOnesOwn(t *testing.T) {
	one := New("", "x", "a", "b").And("x", "c", "d")
	left, right := one.And("x", "e", "f"), one.And("x", "g", "h")
	assert.Equal(t, "e", left.edits[2].old)
	assert.Equal(t, "g", right.edits[2].old)
}
