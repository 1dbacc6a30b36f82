package configtool

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPatchIsOneDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patch.yaml")
	for text, want := range map[string]string{
		"batch_timeout: 100ms\n---\nmax_message_count: 20\n": "it has more than one YAML document: one is accepted",
		"---\n---\nmax_message_count: 20\n":                  "it has more than one YAML document: one is accepted",
		"batch_timeout: 100ms\n---\nmax: [\n":                "yaml: line ",
		"max_size: 20\n":                                     "are accepted",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := readPatch(file)
		require.ErrorContains(t, err, file+": ", text)
		assert.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{"batch_timeout: 100ms\n", "---\nbatch_timeout: 100ms\n---\n# nothing\n", `{"batch_timeout": "100ms"}`} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		patch, err := readPatch(file)
		require.NoError(t, err, text)
		assert.NotZero(t, patch.BatchTimeout, text)
	}
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := readPatch(file)
	assert.NoError(t, err)
}

func TestThePagesPatchIsOne(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "ledger-tools.md"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^    # patch\.yaml.*\n(?:    .*\n)+`).Find(text)
	require.NotEmpty(t, found)
	file := filepath.Join(t.TempDir(), "patch.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(found), "\n    ", "\n")), 0o600))
	patch, err := readPatch(file)
	require.NoError(t, err)
	assert.Equal(t, time.Second, patch.BatchTimeout)
	assert.Len(t, patch.Chaincodes, 1)
	assert.Len(t, patch.Policies, 1)
}
