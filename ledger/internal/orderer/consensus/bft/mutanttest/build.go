package mutanttest

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// variable is set in a mutant's build: to the seed of a schedule that is to be tried first, or to any other word.
const variable = "QIOI_MUTANT"

// Mutated reports whether this is a mutant's build.
func Mutated() bool { return os.Getenv(variable) != "" }

// Passes shows that a test of this package passes in the mutant's build.
func (m Mutant) Passes(t *testing.T, test string) {
	var flags []string
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		flags = append(flags, "-rewrite")
	}
	m.run(t, test, "no seed", flags...)
}

// run runs one test of this package in the mutant's build, and returns what it has said. It fails where the mutant does not
// apply or does not compile, and where the test fails.
func (m Mutant) run(t *testing.T, test, seed string, flags ...string) string {
	binary := m.build(t)
	run := exec.CommandContext(t.Context(), binary, append([]string{"-test.run", "^" + test + "$", "-test.timeout", "5m"}, flags...)...)
	run.Env = append(os.Environ(), variable+"="+seed)
	said, err := run.CombinedOutput()
	require.NoError(t, err, "%s: %s", m.Name, said)
	return string(said)
}

// build makes the test binary of this package with the mutant in place of the source.
func (m Mutant) build(t *testing.T) string {
	files, err := m.sources()
	require.NoError(t, err)
	folder, replaced := t.TempDir(), map[string]string{}
	for name, text := range files {
		real, err := filepath.Abs(name)
		require.NoError(t, err)
		replaced[real] = filepath.Join(folder, strconv.Itoa(len(replaced))+".go")
		require.NoError(t, os.WriteFile(replaced[real], []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	require.NoError(t, err)
	described, binary := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "mutant.test")
	require.NoError(t, os.WriteFile(described, overlay, 0o600))
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", described, "-o", binary, ".")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s does not compile: %s", m.Name, said)
	return binary
}
