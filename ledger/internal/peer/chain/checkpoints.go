package chain

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/peer/checkpoint"
)

const (
	checkpointFolder = "checkpoints"
	idsFolder        = "ids"
	// spillEvery is how many transactions' ids are kept in memory, 150 bytes each, before they go to disk.
	spillEvery = 50_000
	// defaultEvery bounds what a start replays: about two seconds' worth.
	defaultEvery = 50_000
	// atStop is the part of that which is worth a checkpoint when the peer stops.
	atStop = 50
	// share is the least ratio of a pause to the work before it: writing takes at most a tenth of a processor's time and
	// of the disk's.
	share = 9
	// spread is the part of the time between two checkpoints over which one is written. Peers of one host write at about
	// the same time, on the cores that transactions need.
	spread = 2
	// retry is the pause after a checkpoint that could not be written.
	retry = 10 * time.Second
)

// checkpoints writes what the ledger has become to disk now and then, beside the pipeline.
type checkpoints struct {
	folder *checkpoint.Folder
	index  *index
	every  uint64 // transactions; 0: never
	spill  int    // ids
	rest   *durable.Rest
	due    chan duty
	busy   atomic.Bool // from when a mark is due until it is written or given up

	offered uint64    // transactions before the mark that was due last; of offer
	began   time.Time // when a state was due last; of offer

	// Of offer while not busy, else of save:
	covered    uint64 // transactions that the newest one covers
	early      uint64 // the next one comes so many transactions early: peers of one host should not write at the same time
	after      time.Time
	afterSpill time.Time
}

// duty is what is to be written of a durable mark: its ids, and its state too.
type duty struct {
	*mark
	state bool
}

func newCheckpoints(dir string, every int, x *index) *checkpoints {
	if every == 0 {
		every = defaultEvery
	}
	rest := durable.NewRest(share)
	return &checkpoints{
		folder: checkpoint.Open(filepath.Join(dir, checkpointFolder), rest), index: x, every: uint64(max(every, 0)),
		spill: spillEvery, rest: rest, early: early(uint64(max(every, 0))), due: make(chan duty, 1),
	}
}

// early draws by how much a checkpoint comes early, up to an eighth of the interval.
func early(every uint64) uint64 { return rand.Uint64N(max(1, every/8)) }

// load takes the newest checkpoint over that fits the chain. Where there is none the
// ledger stays empty.
func (k *checkpoints) load(l *ledger, store *blockfile.Store) {
	if k.every == 0 {
		return
	}
	var bundle *channelconfig.Bundle
	saved := k.folder.Newest(
		func(p checkpoint.Point) error {
			err := fits(p, l.channelID, store)
			if err == nil {
				bundle, err = configuration(p, store)
			}
			return err
		},
		func(file string, why error) {
			log.Warnf("[%s] checkpoint %s is not used, an older one or the whole chain is: %s", l.channelID, file, why)
		})
	if saved == nil {
		return
	}
	l.state = saved.State
	l.index.refuseAgain(saved.Refused)
	l.resume(saved.Point, bundle)
	k.covered = saved.Point.Transactions
	log.Infof("[%s] Restored the state of block [%d] from checkpoint %s", l.channelID, saved.Point.Blocks-1, saved.File)
}

// offer has a durable mark written if it is time to; it never waits.
func (k *checkpoints) offer(m *mark) {
	if k.busy.Load() {
		// Where the next checkpoint is due as well, no more may pile up for a crash to leave.
		if k.every > 0 && m.Transactions >= k.offered+k.every {
			k.rest.Hurry(true)
		}
		return
	}
	now := time.Now()
	state := k.every > 0 && m.Transactions >= k.covered+k.every-k.early && !now.Before(k.after)
	if !state && (k.index.inMemory() < k.spill || now.Before(k.afterSpill)) {
		return
	}
	k.busy.Store(true)
	k.offered = m.Transactions
	k.rest.Hurry(false)
	if state {
		if !k.began.IsZero() {
			k.rest.Spread(now.Sub(k.began) / spread)
		}
		k.began = now
	}
	k.due <- duty{m, state} // it has room: nothing else is on its way
}

// run writes what was offered until ctx ends.
func (k *checkpoints) run(ctx context.Context) {
	k.rest.During(ctx)
	for {
		select {
		case d := <-k.due:
			k.save(d)
			k.busy.Store(false)
		case <-ctx.Done():
			return
		}
	}
}

// stop spares the next start the replay of what was not covered; run must have returned.
func (k *checkpoints) stop(m *mark) {
	if k.every > 0 && m.Transactions > k.covered+k.every/atStop {
		k.save(duty{m, true})
	}
}

// save writes ids and state. What cannot be written costs memory, and time at the next start, nothing else.
func (k *checkpoints) save(d duty) {
	if err := k.index.spill(d.Blocks, d.Hash); err != nil {
		log.Warnf("[%s] the ids of the transactions up to block [%d] stay in memory: %s", d.Channel, d.Blocks-1, err)
		k.afterSpill = time.Now().Add(retry)
	}
	if d.state {
		k.saveState(d.mark)
	}
	if err := k.index.old.Compact(); err != nil {
		log.Warnf("[%s] files of ids stay apart: %s", d.Channel, err)
	}
}

func (k *checkpoints) saveState(m *mark) {
	start := time.Now()
	if err := k.folder.Save(m.Point, m.state, k.index.refusedBefore(m.Blocks)); err != nil {
		log.Warnf("[%s] no checkpoint at block [%d]; the next start replays more: %s", m.Channel, m.Blocks-1, err)
		k.after = time.Now().Add(retry)
		return
	}
	took := time.Since(start)
	k.covered, k.early = m.Transactions, early(k.every)
	log.Infof("[%s] Checkpoint at block [%d]: %d keys and %d transactions in %s",
		m.Channel, m.Blocks-1, m.state.Len(), m.Transactions, took.Round(time.Millisecond))
}
