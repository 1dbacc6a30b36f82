package mutanttest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variable is the environment variable that is set where try runs a test. It tells Notice the seed of the schedule to try
// first; with alone before it, of the only one. Any other word names no schedule.
const variable = "QIOI_MUTANT"

// alone stands before the seed of the only schedule to try: no script and no other schedule is.
const alone = "alone "

// SkipUnlessMutated skips a test in plain go test. It runs in the builds that a Mutant makes, the sound core's among them.
func SkipUnlessMutated(t *testing.T) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("runs in the builds that tests of mutants make")
	}
}

// Passes shows that a test of this package passes in the mutant's build. A subtest is named TestName/subtest.
func (m Mutant) Passes(t *testing.T, test string) {
	var flags []string
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		flags = append(flags, "-rewrite")
	}
	m.run(t, testOf{".", test}, "no seed", flags...)
}

// testOf is a test by its package's folder, as seen from this one's, and its name.
type testOf struct{ folder, name string }

// run runs a test in the mutant's build, and returns what it has said. It fails where the mutant does not apply or does not
// compile, and where the test does not pass.
func (m Mutant) run(t *testing.T, test testOf, seed string, flags ...string) string {
	binary, err := m.build(t, test.folder)
	require.NoError(t, err)
	return m.passes(t, binary, test, seed, flags...)
}

// passes runs a test in the mutant's build, and returns what it has said. It fails where the test does not pass.
func (m Mutant) passes(t *testing.T, binary string, test testOf, seed string, flags ...string) string {
	said, err := try(t, binary, test, seed, flags...)
	require.NoError(t, err, "%s: %s", m.Name, said)
	return said
}

// try runs one test of a mutant's build. The error is that the test has failed, was skipped, or is not there.
func try(t *testing.T, binary string, test testOf, seed string, flags ...string) (said string, err error) {
	one := "^" + strings.ReplaceAll(test.name, "/", "$/^") + "$"
	run := exec.CommandContext(t.Context(), binary, append([]string{"-test.v", "-test.run", one, "-test.timeout", "5m"}, flags...)...)
	run.Dir, run.Env = test.folder, append(os.Environ(), variable+"="+seed)
	output, err := run.CombinedOutput()
	if err == nil && !strings.Contains(string(output), "--- PASS: "+test.name+" (") {
		err = fmt.Errorf("%s has not run", test.name)
	}
	return string(output), err
}

// build makes the test binary of the package in a folder, with the mutant in place of the source. It is there until the
// test's end.
func (m Mutant) build(t *testing.T, of string) (binary string, err error) {
	files, err := m.sources()
	if err != nil {
		return "", err
	}
	folder, replaced := t.TempDir(), map[string]string{}
	for name, text := range files {
		real, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		replaced[real] = filepath.Join(folder, strconv.Itoa(len(replaced))+".go")
		if err := os.WriteFile(replaced[real], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	described, binary := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "mutant.test")
	if err := os.WriteFile(described, overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", described, "-o", binary, of)
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile: %w: %s", m.Name, err, said)
	}
	return binary, nil
}
