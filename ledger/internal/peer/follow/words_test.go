package follow_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/follow"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// replica is one of four orderers. It has ordered the transactions of an open block, and does not seal it.
type replica struct {
	streampb.UnimplementedStreamServer
	t    *testing.T
	word func(txs [][]byte) []byte // the running hash that it says; nil: it says none
	txs  [][]byte
	// leaves has it break off when it has sent all.
	leaves bool
	mu     sync.Mutex
	heard  int // how often it was asked for words
	read   int // for transactions
}

func (r *replica) Follow(env *commonpb.Envelope, stream streampb.Stream_FollowServer) error {
	at, err := askedFor(r.t, env)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if at.Words {
		r.heard++
	} else {
		r.read++
	}
	r.mu.Unlock()
	if at.Tx > uint64(len(r.txs)) {
		return status.Error(codes.NotFound, "no such position")
	}
	for n := at.Tx; n < uint64(len(r.txs)); n++ {
		batch := &streampb.Batch{}
		if r.word != nil {
			batch.Word = &streampb.Word{Block: 1, Tx: n + 1, Hash: r.word(r.txs[:n+1])}
		}
		if !at.Words {
			batch.Items = []*streampb.Item{txItem(r.txs[n])}
		} else if r.word == nil {
			break
		}
		if err := stream.Send(batch); err != nil {
			return err
		}
	}
	if r.leaves && !at.Words {
		return status.Error(codes.Unavailable, "it leaves")
	}
	<-stream.Context().Done()
	return status.Error(codes.Unavailable, "it ends")
}

func (r *replica) times() (read, heard int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read, r.heard
}

// TestWordsOfOthersTellOfCommits ahead of the seal, while one of four orderers lies, wherever it is asked.
func TestWordsOfOthersTellOfCommits(t *testing.T) {
	type lie = func(*replica, *peertest.World)
	for name, c := range map[string]struct {
		lie  lie
		read bool // it is the one that sends transactions, else it says running hashes
	}{
		"nobody lies":              {lie: func(*replica, *peertest.World) {}},
		"it says no hashes":        {lie: func(r *replica, _ *peertest.World) { r.word = nil }},
		"it says other hashes":     {lie: func(r *replica, _ *peertest.World) { r.word = func([][]byte) []byte { return []byte("x") } }},
		"it says hashes of others": {lie: func(r *replica, w *peertest.World) { r.txs = [][]byte{w.Raw(peertest.Tx{})} }},
		"it sends more than there is, and leaves": {read: true, lie: func(r *replica, w *peertest.World) {
			r.txs = append(slices.Clone(r.txs), w.Raw(peertest.Tx{}))
			r.word, r.leaves = nil, true
		}},
		"it sends another order, and stands by it": {read: true, lie: func(r *replica, _ *peertest.World) {
			r.txs = slices.Clone(r.txs)
			slices.Reverse(r.txs)
		}},
		"it sends another order, and says the true hashes": {read: true, lie: func(r *replica, _ *peertest.World) {
			word, txs := r.word, r.txs
			r.txs = slices.Clone(txs)
			slices.Reverse(r.txs)
			r.word = func(sent [][]byte) []byte { return word(txs[:len(sent)]) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			replicas := make([]*replica, 4)
			addresses := make([]string, 4)
			for i := range replicas {
				replicas[i] = &replica{t: t}
				addresses[i] = serve(t, replicas[i])
			}
			w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: addresses, Liars: 1})
			txs, ids := made(w)
			word := saidOf(w)
			for _, r := range replicas {
				r.txs, r.word = txs, word
			}
			// The peer begins with one, and hears the next.
			sorted := slices.Sorted(slices.Values(addresses))
			at := func(i int) *replica { return replicas[slices.Index(addresses, sorted[i%4])] }
			first := follow.First("peer0", 4)
			liar := at(first + 1)
			if c.read {
				liar = at(first)
			}
			c.lie(liar, w)

			p := follows(t, w, &follow.Follower{Patience: time.Hour})
			p.has(ids)
			assert.EqualValues(t, 1, p.Height(), "no seal has come")
			if read, _ := liar.times(); c.read {
				assert.True(t, read == 1 || liar.leaves, "it is not followed again")
			} else {
				require.Eventually(t, func() bool { _, heard := liar.times(); return heard > 0 }, time.Minute, time.Millisecond)
			}
			p.stop()
		})
	}
}

// made are five transactions and their ids.
func made(w *peertest.World) (txs [][]byte, ids []string) {
	for range 5 {
		raw, id := w.Make(peertest.Tx{})
		txs, ids = append(txs, raw), append(ids, id)
	}
	return txs, ids
}

// saidOf is the running hash that an honest orderer says of the first block's transactions so far.
func saidOf(w *peertest.World) func(txs [][]byte) []byte {
	return func(txs [][]byte) []byte {
		hash := w.NewOrderer().Previous
		for _, tx := range txs {
			hash = protoutil.RunningHash(hash, tx)
		}
		return hash
	}
}
