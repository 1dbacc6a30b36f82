package vouch

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

func who(v *Votes[string], seq uint64, state string) (members []bft.ID) {
	for _, s := range v.For(func(at uint64, other string) bool { return at == seq && other == state }) {
		members = append(members, s.By)
	}
	return members
}

func TestVotesCountForWhatTheySay(t *testing.T) {
	v := New[string](bft.Group{Members: []bft.ID{1, 2, 7}})
	v.Add(0, 5, "a", []byte("one"))
	v.Add(2, 5, "a", []byte("seven"))
	v.Add(1, 5, "b", nil)
	v.Add(1, 6, "a", nil)
	assert.Equal(t, []bft.ID{1, 7}, who(v, 5, "a"))
	assert.Equal(t, []bft.ID{2}, who(v, 5, "b"))
	assert.Empty(t, who(v, 7, "a"))
	signatures := v.For(func(_ uint64, state string) bool { return state == "a" })
	assert.Equal(t, bft.Signature{By: 1, Bytes: []byte("one")}, signatures[0])
}

func TestAMembersFirstVoteForAPlaceCounts(t *testing.T) {
	v := New[string](bft.Group{Members: []bft.ID{1}})
	v.Add(0, 5, "a", nil)
	v.Add(0, 5, "b", nil)
	assert.Equal(t, []bft.ID{1}, who(v, 5, "a"))
	assert.Empty(t, who(v, 5, "b"))
}

func TestAMemberThatVouchesForEverythingIsForgottenAtItsLowest(t *testing.T) {
	v := New[string](bft.Group{Members: []bft.ID{1}})
	for _, seq := range []uint64{9, 3, 7, 5, 1, 8} {
		v.Add(0, seq, "a", nil)
	}
	var left []uint64
	v.For(func(seq uint64, _ string) bool {
		left = append(left, seq)
		return false
	})
	assert.Equal(t, []uint64{5, 7, 8, 9}, left)
}
