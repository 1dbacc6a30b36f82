package configtool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// TestAnOrderedUpdateIsAwaited where SUCCESS comes before the orderer has the configuration, and it is not sent again.
func TestAnOrderedUpdateIsAwaited(t *testing.T) {
	upgrade := []string{"upgrade-chaincode", "smallbank", "--version", "2.0"}
	for name, send := range map[string]func(t *testing.T, w *town) (string, error){
		"at once": func(t *testing.T, w *town) (string, error) { return w.run(t, upgrade...) },
		"of a file": func(t *testing.T, w *town) (string, error) {
			file := filepath.Join(t.TempDir(), "update")
			_, err := w.run(t, append(upgrade, "--out", file)...)
			require.NoError(t, err)
			return w.run(t, "send", file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, "raft")
			w.honest.unread = 2 * len(w.nodes) // it takes two to find the configuration
			out, err := send(t, w)
			require.NoError(t, err)
			assert.Contains(t, out, "configuration 2 is in force from block 2 on")
			assert.Equal(t, 1, w.honest.got)
		})
	}
}

// TestAnUpdateThatCameSecondIsToBeMadeAgain: it is ordered without effect.
func TestAnUpdateThatCameSecondIsToBeMadeAgain(t *testing.T) {
	w := newTown(t, "raft")
	_, c, err := w.open()
	require.NoError(t, err)
	now, err := c.fetch(t.Context())
	require.NoError(t, err)
	_, err = w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
	require.NoError(t, err)
	w.nodes[0].answer = &ordererpb.BroadcastResponse{Status: commonpb.Status_SUCCESS}
	_, err = c.send(t.Context(), &commonpb.ConfigUpdateEnvelope{ConfigUpdate: []byte("another")}, now.config.Sequence)
	assert.ErrorIs(t, err, ErrOvertaken)
}

// TestAnUpdateMayFollowAnother that came into force while it was sent.
func TestAnUpdateMayFollowAnother(t *testing.T) {
	w := newTown(t, "raft")
	file := filepath.Join(t.TempDir(), "update")
	_, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0", "--out", file)
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	update := &commonpb.ConfigUpdateEnvelope{}
	require.NoError(t, proto.Unmarshal(raw, update))
	_, c, err := w.open()
	require.NoError(t, err)
	before, err := c.fetch(t.Context())
	require.NoError(t, err)
	patch := filepath.Join(t.TempDir(), "patch.yaml")
	require.NoError(t, os.WriteFile(patch, []byte("max_message_count: 77\n"), 0o600))
	_, err = w.run(t, "apply", patch)
	require.NoError(t, err)

	w.honest.unread = 2 * len(w.nodes) // they show the other one meanwhile
	now, err := c.send(t.Context(), update, before.config.Sequence)
	require.NoError(t, err)
	assert.Greater(t, now.config.Sequence, before.config.Sequence+1)
}

// TestSuccessIsNoRefusal where the orderer that has told it is away afterwards, and the next one knows of the update before
// it shows it.
func TestSuccessIsNoRefusal(t *testing.T) {
	w := newTown(t, "raft")
	w.nodes[0].mute = true
	for _, node := range w.nodes[1:] {
		node.answer = &ordererpb.BroadcastResponse{Status: commonpb.Status_BAD_REQUEST, Info: "it is in force"}
	}
	w.honest.unread = 2 * len(w.nodes)
	out, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
	require.NoError(t, err)
	assert.Contains(t, out, "configuration 2 is in force from block 2 on")
	assert.Equal(t, 1, w.honest.got)
}
