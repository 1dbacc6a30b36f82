package resultfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type result struct{}

func (result) WriteJSON(w io.Writer) error { return say(w, "json") }
func (result) WriteText(w io.Writer) error { return say(w, "text") }

func say(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func TestACheckLeavesEverythingAsItIs(t *testing.T) {
	dir := t.TempDir()
	older, link, pipe := filepath.Join(dir, "older"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	require.NoError(t, os.WriteFile(older, []byte("older"), 0o600))
	require.NoError(t, os.Symlink("nothing", link))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600)) // without a reader: to open it would not end
	require.NoError(t, Check("", "-", filepath.Join(dir, "new"), older, link, pipe, "/dev/null", "/dev/stdout"))
	got, err := os.ReadFile(older)
	require.NoError(t, err)
	assert.Equal(t, "older", string(got))
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, found, 3)
}

func TestAFileThatCannotBeWrittenIsToldByTheCheck(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, filepath.Join(dir, "missing", "file")} {
		require.ErrorContains(t, Check("", name), name)
	}
}

func TestAResultReplacesAnOlderOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("a longer one"), 0o600))
	broken := errors.New("broken")
	require.ErrorIs(t, Write(file, func(w io.Writer) error { return errors.Join(say(w, "half"), broken) }), broken)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "a longer one", string(got))
	require.NoError(t, Write(file, result{}.WriteText))
	got, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "text", string(got))
}

func TestWhereAResultIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for name, want := range map[string]string{"": "text", "-": "json", file: "text"} {
		var out bytes.Buffer
		require.NoError(t, Tell(result{}, name, &out))
		assert.Equal(t, want, out.String())
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "json", string(got))

	var out bytes.Buffer
	require.ErrorContains(t, Tell(result{}, "/dev/full", &out), "/dev/full")
	assert.Equal(t, "text", out.String())
}
