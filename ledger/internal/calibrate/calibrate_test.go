package calibrate

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCalibrationMeasuresEverythingAndLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	cmd, out := Command(), new(bytes.Buffer)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--dir", folder})
	require.NoError(t, cmd.Execute())

	var found Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &found))
	require.Positive(t, found.SyncMicros)
	require.Positive(t, found.WakeMicros)
	require.Greater(t, found.VerifyMicros, found.SignMicros/10)
	require.InDelta(t, 6*found.VerifyMicros+3*found.SignMicros, found.FloorMicros, 1e-6)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCalibrationSaysThatItsFolderIsMissing(t *testing.T) {
	_, err := Run("/nowhere/at/all")
	require.ErrorIs(t, err, os.ErrNotExist)
}
