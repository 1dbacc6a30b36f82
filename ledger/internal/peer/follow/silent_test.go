package follow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/follow"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
)

// TestASilentOrdererIsToldOf, from the beginning of its connection on, and is left.
func TestASilentOrdererIsToldOf(t *testing.T) {
	for name, what := range map[string][]byte{"connection alone": nil, "settings": {0, 0, 0, 4, 0, 0, 0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: []string{peertest.Says(t, what)}})
			c, err := chain.Open(t.TempDir(), w.Genesis, chain.Options{})
			require.NoError(t, err)
			defer func() { assert.NoError(t, c.Close()) }()
			f := &follow.Follower{Name: "peer0", Signer: w.Signer("Org1MSP", "peer"), Chain: c}
			opstest.Watched(t, func(soFar func() string) {
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { assert.NoError(t, f.Run(ctx)) })
				assert.Eventually(t, func() bool { return strings.Contains(soFar(), "does not answer") }, longest, 10*time.Millisecond)
				cancel()
				running.Wait()
			})
		})
	}
}

// TestASilentOrdererHoldsNoWordsUp: a stream to it never opens, and the words of the others are heard in its place.
func TestASilentOrdererHoldsNoWordsUp(t *testing.T) {
	for name, what := range map[string][]byte{"connection alone": nil, "no streams": peertest.NoStreams} {
		t.Run(name, func(t *testing.T) {
			silent := peertest.Says(t, what)
			replicas := make([]*replica, 3)
			addresses := []string{silent}
			for i := range replicas {
				replicas[i] = &replica{t: t}
				addresses = append(addresses, serve(t, replicas[i]))
			}
			w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream, Orderers: addresses, Liars: 1})
			txs, ids := made(w)
			for _, r := range replicas {
				r.txs, r.word = txs, saidOf(w)
			}
			// The peer's name has it hear the silent one first: it is the next one after the one that it follows.
			place, name := slices.Index(slices.Sorted(slices.Values(addresses)), silent), "peer0"
			for n := 1; (follow.First(name, 4)+1)%4 != place; n++ {
				name = fmt.Sprint("peer", n)
			}
			p := follows(t, w, &follow.Follower{Name: name, Patience: time.Hour})
			p.has(ids)
			assert.EqualValues(t, 1, p.Height(), "no seal has come")
			p.stop()
		})
	}
}
