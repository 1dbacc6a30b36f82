package follow

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// batchOf makes a batch: "t" is a transaction, "s" a seal, "w" the word for all before.
func batchOf(items string) *streampb.Batch {
	batch := &streampb.Batch{}
	for _, item := range items {
		switch item {
		case 't':
			batch.Items = append(batch.Items, &streampb.Item{Kind: &streampb.Item_Tx{}})
		case 's':
			batch.Items = append(batch.Items, &streampb.Item{Kind: &streampb.Item_Seal{Seal: &streampb.Seal{}}})
		case 'w':
			batch.Word = &streampb.Word{}
		}
	}
	return batch
}

// TestWhoSentABlock that is taken back, block 7 always, whoever is followed by then.
func TestWhoSentABlock(t *testing.T) {
	type sent struct {
		address string
		at      chain.Position
		items   string
	}
	for name, c := range map[string]struct {
		sent []sent
		want string
	}{
		"one":                                {[]sent{{"a", at(7, 0), "tt"}, {"a", at(7, 2), "ts"}}, "a"},
		"one, and it went on":                {[]sent{{"a", at(6, 1), "tststt"}}, "a"},
		"one, and another one went on":       {[]sent{{"a", at(7, 0), "tts"}, {"b", at(8, 0), "tts"}}, "a"},
		"one, and another one has said more": {[]sent{{"a", at(7, 0), "tts"}, {"b", at(8, 0), "tw"}}, "a"},
		"one, after another one":             {[]sent{{"a", at(6, 0), "tsw"}, {"b", at(7, 0), "ts"}}, "b"},
		"two":                                {[]sent{{"a", at(7, 0), "tt"}, {"b", at(7, 2), "ts"}}, several},
		"two, of which one sealed":           {[]sent{{"a", at(7, 0), "tt"}, {"b", at(7, 2), "s"}}, several},
		"two, of which one said a word":      {[]sent{{"a", at(7, 0), "tt"}, {"b", at(7, 2), "w"}}, several},
		"one, and what was on disk":          {[]sent{{"a", at(7, 2), "ts"}}, several},
		"nobody yet":                         {[]sent{{"a", at(6, 0), "tsw"}}, several},
	} {
		s := senders{}
		for _, one := range c.sent {
			s.note(one.address, one.at, batchOf(one.items))
		}
		s.forget(7)
		assert.NotContains(t, s, uint64(6), name)
		assert.Equal(t, c.want, s.takenBack(7), name)
		assert.Empty(t, s, name)
		s.note("c", at(7, 0), batchOf("ts"))
		assert.Equal(t, "c", s.takenBack(7), "%s, and again from another one", name)
	}
}

// TestEachItemIsShared, though not each is looked up: the same as one by one.
func TestEachItemIsShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		got, want := senders{}, senders{}
		next := at(7, uint64(rng.IntN(2)))
		for range rng.IntN(8) {
			address := string("ab"[rng.IntN(2)])
			items := strings.Repeat("t", rng.IntN(3)) + []string{"", "s", "ss", "st", "sts"}[rng.IntN(5)] + []string{"", "w"}[rng.IntN(2)]
			got.note(address, next, batchOf(items))
			for _, item := range items {
				if item != 'w' || next.Tx > 0 {
					want.share(address, next)
				}
				switch item {
				case 't':
					next.Tx++
				case 's':
					next = at(next.Block+1, 0)
				}
			}
		}
		assert.Equal(t, want, got)
	}
}

func BenchmarkNote(b *testing.B) {
	s, batch := senders{}, batchOf(strings.Repeat("t", 100))
	for b.Loop() {
		s.note("a", at(7, 0), batch)
	}
}
