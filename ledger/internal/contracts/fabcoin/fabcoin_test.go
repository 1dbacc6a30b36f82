package fabcoin_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/contracts/fabcoin"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// wallet is a client of the contract.
type wallet struct {
	t        *testing.T
	p        *shimtest.Peer
	proposal *peerpb.SignedProposal
}

func open(t *testing.T, p *shimtest.Peer, name string) wallet {
	t.Helper()
	marshal := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		return raw
	}
	return wallet{t, p, &peerpb.SignedProposal{ProposalBytes: marshal(&peerpb.Proposal{Header: marshal(&commonpb.Header{
		ChannelHeader: marshal(&commonpb.ChannelHeader{}), SignatureHeader: marshal(&commonpb.SignatureHeader{Creator: []byte(name)}),
	})})}}
}

func (w wallet) ok(args ...string) string {
	w.t.Helper()
	response, _ := w.p.InvokeSigned(w.proposal, args...)
	require.EqualValues(w.t, 200, response.GetStatus(), response.GetMessage())
	return string(response.GetPayload())
}

func (w wallet) refused(want string, args ...string) {
	w.t.Helper()
	response, _ := w.p.InvokeSigned(w.proposal, args...)
	assert.EqualValues(w.t, 500, response.GetStatus(), args)
	assert.Contains(w.t, response.GetMessage(), want, args)
}

func ids(t *testing.T, text string) (out []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

func TestCoinsAreMintedAndSpent(t *testing.T) {
	p := shimtest.Start(t, fabcoin.New())
	alice, bob := open(t, p, "alice"), open(t, p, "bob")
	minted := ids(t, alice.ok("mint", `[{"amount":70},{"amount":30}]`))
	require.Len(t, minted, 2)
	assert.JSONEq(t, fmt.Sprintf(`{"owner":%q,"amount":30}`, alice.ok("owner")), bob.ok("coin", minted[1]))

	inputs, err := json.Marshal(minted)
	require.NoError(t, err)
	outputs := fmt.Sprintf(`[{"owner":%q,"amount":99},{"amount":1}]`, bob.ok("owner"))
	spent := ids(t, alice.ok("spend", string(inputs), outputs))
	assert.JSONEq(t, fmt.Sprintf(`{"owner":%q,"amount":99}`, bob.ok("owner")), alice.ok("coin", spent[0]))
	assert.Len(t, p.State(), 2, "what was spent is gone")

	alice.refused("does not exist", "spend", string(inputs), outputs)
	alice.refused("somebody else's", "spend", fmt.Sprintf(`[%q]`, spent[0]), `[{"amount":99}]`)
	bob.ok("spend", fmt.Sprintf(`[%q]`, spent[0]), `[{"amount":99}]`)
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	p := shimtest.Start(t, fabcoin.New())
	alice := open(t, p, "alice")
	coin := ids(t, alice.ok("mint", `[{"amount":5}]`))[0]
	before := p.State()
	one, twice := fmt.Sprintf(`[%q]`, coin), fmt.Sprintf(`[%q,%q]`, coin, coin)
	alice.refused("outputs of 6 for inputs of 5", "spend", one, `[{"amount":6}]`)
	alice.refused("outputs of 4 for inputs of 5", "spend", one, `[{"amount":4}]`)
	alice.refused("twice", "spend", twice, `[{"amount":10}]`)
	alice.refused("above 0", "spend", one, `[{"amount":6},{"amount":-1}]`)
	alice.refused("overflow", "mint", `[{"amount":9223372036854775807},{"amount":1}]`)
	alice.refused("JSON list", "mint", `5`)
	alice.refused("JSON list", "mint", `[]`)
	alice.refused("JSON list", "spend", `[]`, `[{"amount":5}]`)
	alice.refused("are taken", "spend", one)
	assert.Equal(t, before, p.State())
	assert.Contains(t, p.Invoke("mint", `[{"amount":5}]`).GetMessage(), "no proposal", "nobody's coins are not made")
}
