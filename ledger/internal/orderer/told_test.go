package orderer

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
)

// nobody is a member of an organisation that says what it likes.
type nobody string

func (n nobody) Serialized() []byte {
	raw, err := proto.Marshal(&msppb.SerializedIdentity{Mspid: string(n)})
	if err != nil {
		panic(err)
	}
	return raw
}

func (nobody) Sign([]byte) ([]byte, error) { return []byte("a signature"), nil }

// TestNoLongTextOfAClientComesBack: a gateway's clients share the stream, on which it takes no more.
func TestNoLongTextOfAClientComesBack(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	c.start(0)
	stranger, _, err := protoutil.NewEnvelope(commonpb.HeaderType_ENDORSER_TRANSACTION, ch, nobody(strings.Repeat("\x01", 16381)), nil, nil)
	require.NoError(t, err)
	update, err := proto.Marshal(&commonpb.ConfigUpdate{ChannelId: ch, ReadSet: &commonpb.ConfigGroup{
		Groups: map[string]*commonpb.ConfigGroup{strings.Repeat("é", 35<<10): {}},
	}})
	require.NoError(t, err)
	signed, err := proto.Marshal(&commonpb.ConfigUpdateEnvelope{ConfigUpdate: update})
	require.NoError(t, err)
	outdated, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG_UPDATE, ch, c.client, nil, signed)
	require.NoError(t, err)
	for want, env := range map[string]*commonpb.Envelope{"unknown organisation": stranger, "the update was made from": outdated} {
		r, err := c.ask(0, env)
		require.NoError(t, err, want)
		assert.Contains(t, r.Info, want)
		assert.LessOrEqual(t, len(r.Info), mostTold, want)
	}
	for _, pad := range []string{"", "x"} { // one of them is cut within a letter
		r := refusal(ch, nil, errors.New(pad+strings.Repeat("é", mostTold)))
		assert.True(t, utf8.ValidString(r.Info))
		assert.Less(t, len(r.Info), 2*mostTold)
	}
}
