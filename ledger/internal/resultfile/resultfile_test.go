package resultfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/durable"
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
	require.NoError(t, Check("-", "", filepath.Join(dir, "new"), older, link, pipe, "/dev/null", "/dev/stdout"))
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

// TestStandardOutputIsToldAlone: a file called - would be written otherwise.
func TestStandardOutputIsToldAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, Check("-", "", "./-"))
	require.ErrorContains(t, Check("", "file", "-"), `"-": `)
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

// TestAnOlderResultIsThereUntilThereIsANewOne: a disk that fills in between loses none.
func TestAnOlderResultIsThereUntilThereIsANewOne(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("older"), 0o600))
	older, err := os.Open(file)
	require.NoError(t, err)
	defer func() { assert.NoError(t, older.Close()) }()
	require.NoError(t, Write(file, result{}.WriteText))
	kept, err := io.ReadAll(older)
	require.NoError(t, err)
	assert.Equal(t, "older", string(kept), "another file has its name")
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, found, 1)
	about, err := found[0].Info()
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), about.Mode())
}

// TestAnOlderResultStaysWhereANewOneCannotBeWritten, whatever the disk says.
func TestAnOlderResultStaysWhereANewOneCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("older"), 0o600))
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2, Max: before.Max}))
	err := Write(file, result{}.WriteText)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	require.ErrorIs(t, err, syscall.EFBIG)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "older", string(got))
}

// TestWhatIsNoPlainFileIsWrittenInPlace, and a file beside which there can be no other.
func TestWhatIsNoPlainFileIsWrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	target, link, pipe, long := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, strings.Repeat("l", 255))
	blocked := filepath.Join(dir, "blocked")
	require.NoError(t, os.Mkdir(blocked+"."+durable.Making, 0o700))
	require.NoError(t, os.Symlink("target", link))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { assert.NoError(t, reader.Close()) }()
	for _, name := range []string{link, link, pipe, long, blocked, blocked} {
		require.NoError(t, Write(name, result{}.WriteText))
	}
	for _, name := range []string{target, long, blocked} {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, "text", string(got))
	}
	got := make([]byte, 4)
	_, err = io.ReadFull(reader, got)
	require.NoError(t, err)
	assert.Equal(t, "text", string(got))
	for name, kind := range map[string]os.FileMode{link: os.ModeSymlink, pipe: os.ModeNamedPipe} {
		found, err := os.Lstat(name)
		require.NoError(t, err)
		assert.Equal(t, kind, found.Mode().Type())
	}
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
