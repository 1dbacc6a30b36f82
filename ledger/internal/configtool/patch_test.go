package configtool

import (
	"os"
	"path/filepath"
	"testing"

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
