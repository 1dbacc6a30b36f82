package zyzzyva

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// asking is a client that has asked a group of n, and counts what it verifies.
type asking struct {
	*Client
	group    bft.Group
	verified int
}

func newAsking(n int, txs ...string) *asking {
	a := &asking{group: scripttest.GroupOf(n)}
	a.Client = NewClient(ClientConfig{
		Domain: "ch", Group: a.group, Fast: time.Second, Resend: time.Hour, MaxResend: time.Hour,
		Verify: func(by bft.ID, data, signature []byte) bool {
			a.verified++
			return scripttest.Verify(by, data, signature)
		},
	})
	for _, tx := range txs {
		a.Step(1, bft.Submit{Tx: []byte(tx)})
	}
	return a
}

// answer is what a replica says of a transaction, which its leader has ordered.
func (a *asking) answer(by bft.ID, where position, history int, tx string) *Response {
	m := &Response{View: where.view, Seq: where.seq, History: bft.Digest{byte(history), byte(history >> 8)}, Txs: []bft.Digest{bft.TxDigest([]byte(tx))}}
	m.Signature = scripttest.Sign(by, ResponseStatement("ch", 0, m.View, m.Seq, m.History))
	m.Order = scripttest.Sign(a.group.Leader(m.View), OrderStatement("ch", 0, m.View, m.Seq, m.History))
	return m
}

func (a *asking) hears(now bft.Time, by bft.ID, m bft.Message) bft.ClientEffects {
	return a.Step(now, bft.Received{From: by, Message: m})
}

// kept is how many histories the client knows.
func (a *asking) kept() int {
	known := map[*histories]bool{}
	for _, p := range a.places {
		for _, h := range p.said {
			if h != nil {
				known[h] = true
			}
		}
	}
	return len(known)
}

// TestALiarIsHeardNoMoreThanOthers, whatever it says two thousand times of a transaction that waits: each word has the client
// verify nothing, or what it has not verified yet, and is not kept beside the one before.
func TestALiarIsHeardNoMoreThanOthers(t *testing.T) {
	forged := func(m *Response) *Response {
		m.Order = []byte("forged")
		return m
	}
	for name, says := range map[string]func(a *asking, i int) *Response{
		"other histories":           func(a *asking, i int) *Response { return a.answer(4, position{seq: 1}, i, "a") },
		"others that nobody orders": func(a *asking, i int) *Response { return forged(a.answer(4, position{seq: 1}, i, "a")) },
		"one for each that waits":   func(a *asking, i int) *Response { return forged(a.answer(4, position{seq: 1}, i, fmt.Sprint(i%100))) },
		"other places":              func(a *asking, i int) *Response { return a.answer(4, position{seq: uint64(i)}, i, "a") },
		"other views":               func(a *asking, i int) *Response { return a.answer(4, position{view: uint64(i), seq: 1}, i, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsking(4, "a")
			for i := range 100 {
				a.Step(1, bft.Submit{Tx: []byte(fmt.Sprint(i))})
			}
			a.hears(1, 1, a.answer(1, position{seq: 1}, 0, "a"))
			for i := range 2000 {
				a.hears(1, 4, says(a, i+1))
			}
			assert.LessOrEqual(t, a.verified, 2)
			assert.LessOrEqual(t, len(a.waiting[bft.TxDigest([]byte("a"))].said), 2)
			assert.LessOrEqual(t, a.kept(), 2)

			// The others are heard all the same.
			for _, id := range []bft.ID{2, 3} {
				a.hears(1, id, a.answer(id, position{seq: 1}, 0, "a"))
			}
			require.IsType(t, &Commit{}, a.Step(2*time.Second, bft.Tick{}).Send[0].Message)
			var accepted []bft.Accepted
			for _, id := range []bft.ID{1, 2, 3} {
				accepted = append(accepted, a.hears(2*time.Second, id, &LocalCommit{Seq: 1}).Accepted...)
			}
			assert.Equal(t, []bft.Accepted{{Tx: bft.TxDigest([]byte("a")), Seq: 1, How: bft.ByCertificate}}, accepted)
		})
	}
}

// TestALaterViewIsHeard: what a replica has in it takes the place of what it had before, and the earlier one does not come back.
func TestALaterViewIsHeard(t *testing.T) {
	a := newAsking(4, "a")
	for _, id := range a.group.Members {
		a.hears(1, id, a.answer(id, position{view: uint64(id % 2), seq: 1}, 7, "a"))
	}
	assert.Len(t, a.places, 2)
	a.hears(1, 1, a.answer(1, position{seq: 1}, 7, "a"))
	a.hears(1, 2, a.answer(2, position{view: 1, seq: 1}, 7, "a"))
	assert.Len(t, a.places, 2)
	e := a.hears(1, 4, a.answer(4, position{view: 1, seq: 1}, 7, "a"))
	assert.Equal(t, []bft.Accepted{{Tx: bft.TxDigest([]byte("a")), Seq: 1, How: bft.ByAll}}, e.Accepted)
	assert.Empty(t, a.places)
}

// TestTheReplicasAreToldOnceOfALeadersTwoHistories at a place.
func TestTheReplicasAreToldOnceOfALeadersTwoHistories(t *testing.T) {
	a := newAsking(4, "a")
	told := 0
	for _, id := range a.group.Members {
		for _, out := range a.hears(1, id, a.answer(id, position{seq: 1}, int(id), "a")).Send {
			require.IsType(t, &Misbehaviour{}, out.Message)
			told++
		}
	}
	assert.Equal(t, 4, told, "each once")
	assert.Equal(t, 2, a.verified)
}

// TestLiarsAloneHaveNothingVerified: a place of which f members say something may be made up.
func TestLiarsAloneHaveNothingVerified(t *testing.T) {
	a := newAsking(7, "a")
	for i := range 1000 {
		for _, id := range []bft.ID{6, 7} {
			a.hears(1, id, a.answer(id, position{view: uint64(i), seq: 1}, int(id), "a"))
		}
	}
	assert.Zero(t, a.verified)
	for _, id := range []bft.ID{1, 2} {
		a.hears(1, id, a.answer(id, position{view: 999, seq: 1}, 6, "a"))
	}
	assert.Equal(t, 2, a.verified)
}

// TestASpoiledSignatureIsVerifiedOnce: the certificate waits for another member's.
func TestASpoiledSignatureIsVerifiedOnce(t *testing.T) {
	a := newAsking(7, "a", "b")
	spoiled := a.answer(1, position{seq: 1}, 7, "a")
	spoiled.Signature = []byte("spoiled")
	a.hears(1, 1, spoiled)
	for _, id := range []bft.ID{2, 3, 4, 5} {
		a.hears(1, id, a.answer(id, position{seq: 1}, 7, "a"))
	}
	for now := range bft.Time(10) {
		assert.Empty(t, a.Step((now+2)*time.Second, bft.Tick{}).Send)
		a.hears((now+2)*time.Second, 1, a.answer(1, position{seq: 1}, 7, "b"))
	}
	assert.Equal(t, 5, a.verified)
	a.hears(20*time.Second, 6, a.answer(6, position{seq: 1}, 7, "a"))
	assert.Len(t, a.Step(21*time.Second, bft.Tick{}).Send, 7)
	assert.Equal(t, 10, a.verified)
}

// TestWhatIsKeptOfAResponseIsSmall: a liar's may be as long as a link carries, and have a signature as long as itself.
func TestWhatIsKeptOfAResponseIsSmall(t *testing.T) {
	a := newAsking(4, "a", "b", "c")
	var raws []weak.Pointer[byte]
	says := func(by bft.ID, m *Response) {
		raw := Encode(m)
		read, err := Decode(raw)
		require.NoError(t, err)
		a.hears(1, by, read)
		raws = append(raws, weak.Make(&raw[0]))
	}
	long := a.answer(4, position{seq: 1}, 4, "a")
	long.Txs = append(long.Txs, make([]bft.Digest, 10_000)...)
	says(4, long)
	signed := a.answer(4, position{seq: 2}, 4, "b")
	signed.Signature = make([]byte, 1<<20)
	says(4, signed)
	ordered := a.answer(4, position{seq: 3}, 4, "c")
	ordered.Order = make([]byte, 1<<20)
	says(4, ordered)
	runtime.GC()
	for i, raw := range raws {
		assert.Nil(t, raw.Value(), "message %d is kept", i)
	}
	kept := 0
	for _, p := range a.places {
		for _, h := range p.said {
			if h != nil {
				kept += len(h.order)
				for _, signature := range h.signatures {
					kept += len(signature)
				}
			}
		}
	}
	assert.Less(t, kept, 1000)
	assert.Len(t, a.places, 3, "each is heard")
}
