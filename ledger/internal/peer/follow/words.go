package follow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// Where orderers may lie, a peer takes transactions from one of them, and running hashes from as many others as may lie. So
// it hears one correct orderer at least, and when all say the same, that is the order. One that says something else, nothing,
// or says it late, is left for the next: it may be the one that lies, and so may be all the others. Until enough say the
// same, the seal decides.

const (
	// lag is how long an orderer may take to say a word for what the peer has received; longestLag where others took long
	// as well.
	lag        = 500 * time.Millisecond
	longestLag = 8 * time.Second
)

// wordOf takes a word from the wire. What is kept of words is bounded by their number, so their hashes have one length.
func wordOf(w *streampb.Word) (chain.Word, error) {
	if n := len(w.GetHash()); n != sha256.Size {
		return chain.Word{}, fmt.Errorf("its running hash has %d bytes, not %d", n, sha256.Size)
	}
	return chain.Word{Position: chain.Position{Block: w.GetBlock(), Tx: w.GetTx()}, Hash: string(w.GetHash())}, nil
}

// counts reports whether an orderer's word counts: it is known to be the consenter that the channel has at that address.
func (f *Follower) counts(address string) bool { return f.Chain.Bundle().Orderer.IsConsenter(address) }

// witnesses are attendants that hear other orderers' words, one orderer each at a time.
func (f *Follower) witnesses(followed string, choice *choice) (attendants []func(context.Context) error) {
	liars := f.Chain.Needed() - 1
	if liars < 1 {
		return nil
	}
	spared := maps.Clone(choice.liars)
	turn := &turn{next: f.firstOrderer() + 1, busy: map[string]bool{followed: true}, suits: func(address string) bool {
		return !spared[address] && f.counts(address)
	}}
	for range liars {
		attendants = append(attendants, func(ctx context.Context) error { f.hear(ctx, turn); return nil })
	}
	return attendants
}

// turn hands out orderers, each to one at a time. A configuration may bring others at any time, or take some away.
type turn struct {
	suits func(address string) bool

	mu   sync.Mutex
	next int
	busy map[string]bool
}

// take gives the next one that suits; ok is false where there is none.
func (t *turn) take(addresses []string) (address string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range addresses {
		address = addresses[t.next%len(addresses)]
		t.next++
		if !t.busy[address] && t.suits(address) {
			t.busy[address] = true
			return address, true
		}
	}
	return "", false
}

func (t *turn) giveBack(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, address)
}

// hear listens to one orderer after the other.
func (f *Follower) hear(ctx context.Context, turn *turn) {
	patience := lag
	for ctx.Err() == nil {
		if address, ok := turn.take(f.Chain.Bundle().Orderer.Addresses); ok {
			heard, err := f.hearOne(ctx, address, patience)
			turn.giveBack(address)
			if ctx.Err() != nil {
				return
			}
			log.Infof("[%s] orderer %s is no longer asked for running hashes: %s", f.Chain.ID(), address, err)
			if patience = min(2*patience, longestLag); heard {
				patience = lag
			}
		}
		wait(ctx, firstPause)
	}
}

var (
	errLate        = errors.New("it has not said one in time")
	errContradicts = errors.New("it says another one than this peer has")
	errNoConsenter = errors.New("it is no consenter of the channel any more")
)

// hearOne listens to an orderer until it fails, contradicts, or is late. Heard is whether it has agreed before.
func (f *Follower) hearOne(ctx context.Context, address string, patience time.Duration) (heard bool, err error) {
	before, _ := f.Chain.Standing(address)
	defer func() {
		agreed, _ := f.Chain.Standing(address)
		heard = before.Before(agreed)
	}()
	conn, err := f.dial(address)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := f.ask(&streampb.Position{Words: true})
	if err != nil {
		return false, err
	}
	// It expects words from here on: an orderer may accept the connection and never let a stream open.
	go f.expect(ctx, address, patience, cancel)
	stream, err := streampb.NewStreamClient(conn).Follow(ctx, request)
	if err != nil {
		return false, cmp.Or(context.Cause(ctx), err)
	}
	for {
		batch, err := stream.Recv()
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		if err != nil {
			return false, err
		}
		word, err := wordOf(batch.Word)
		if err != nil {
			return false, err
		}
		if !f.counts(address) {
			return false, errNoConsenter
		}
		if f.Chain.Say(address, word) == chain.Contradicts {
			return false, errContradicts
		}
	}
}

// expect says why an orderer is not to be heard any longer: it has contradicted what came after its word, or has not agreed
// to what the peer had received a while ago.
func (f *Follower) expect(ctx context.Context, address string, patience time.Duration, leave context.CancelCauseFunc) {
	ticker := time.NewTicker(lag / 2)
	defer ticker.Stop()
	due, since := f.Chain.Reached(), time.Now()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case now = <-ticker.C:
		}
		agreed, against := f.Chain.Standing(address)
		switch {
		case against:
			leave(errContradicts)
		case !agreed.Before(due):
			due, since = f.Chain.Reached(), now
		case now.Sub(since) >= patience:
			leave(errLate)
		}
	}
}
