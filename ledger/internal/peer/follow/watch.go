package follow

import (
	"context"
	"sync"
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// watch sees whether the orderer that is followed withholds, as Fabric 3's peers do: other orderers are asked for the
// header of their newest block. It costs one question per patience.
type watch struct {
	others []witness // who are asked, in turn
	// ask gives the number of the newest block that an orderer is seen to have sealed. The peer waits for block waitsFor.
	ask   func(ctx context.Context, address string, waitsFor uint64) (uint64, error)
	asked int

	mu       sync.Mutex
	progress progress
	waiting  time.Time // from when on waiting is not counted yet; zero: the peer does not wait
}

// witness is an orderer that may say what there is.
type witness struct {
	address string
	from    time.Time // suspected until then, and not asked
}

// looks is how often a patience is looked at.
const looks = 5

// waits says that the peer has taken all and waits for the orderer. next is what it receives next.
func (w *watch) waits(next chain.Position, o *channelconfig.Orderer) {
	blockTime := o.BatchTimeout
	if o.Mode == channelconfig.Stream {
		blockTime = o.VirtualBlockInterval
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = time.Now()
	w.progress.received(next, blockTime)
}

// heard says that something has come.
func (w *watch) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.count(time.Now()) // the next look says it
	w.waiting = time.Time{}
}

func (w *watch) count(now time.Time) error {
	if w.waiting.IsZero() {
		return nil
	}
	took := now.Sub(w.waiting)
	w.waiting = now
	return w.progress.wait(took)
}

func (w *watch) look() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count(time.Now())
}

// run returns why the orderer is not to be followed any longer, or nil when ctx ends.
func (w *watch) run(ctx context.Context) error {
	patience := w.progress.patience
	ticker := time.NewTicker(patience / looks)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := w.look(); err != nil {
			return err
		}
		if n%looks == 0 {
			w.askOne(ctx, patience)
		}
	}
}

func (w *watch) nextWitness() (address string, ok bool) {
	for range w.others {
		next := w.others[w.asked%len(w.others)]
		w.asked++
		if time.Now().After(next.from) {
			return next.address, true
		}
	}
	return "", false
}

// waitsFor is the block that the peer waits for.
func (w *watch) waitsFor() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress.next.Block
}

// askOne asks the next of the others. One that does not answer says nothing.
func (w *watch) askOne(ctx context.Context, patience time.Duration) {
	address, ok := w.nextWitness()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sealed, err := w.ask(ctx, address, w.waitsFor())
	if err != nil {
		log.Debugf("newest block of orderer %s: %s", address, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.count(time.Now()) // before the claim
	w.progress.claims(address, sealed)
}
