package chain

import (
	"sync"

	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// recentBlocks is how many sealed blocks' records are kept for those who listen live;
// older ones are read from the files.
const recentBlocks = 32

// Record is what listeners learn of a committed transaction.
type Record struct {
	TxID  string
	Type  commonpb.HeaderType
	Code  Code
	Event *peerpb.ChaincodeEvent // nil when there is none
}

func newRecord(tx *validate.Tx, code Code) Record {
	return Record{TxID: tx.ID, Type: tx.Type, Code: code, Event: tx.Event}
}

// feed is what is durable, for listeners: the sealed height, the records of the open
// block and of recent ones.
type feed struct {
	mu      sync.Mutex
	height  uint64
	open    []Record // only ever appended to: a reader may keep a prefix
	recent  map[uint64][]Record
	changed chan struct{} // nil while nobody waits
}

func newFeed() *feed { return &feed{recent: map[uint64][]Record{}} }

// add makes a transaction visible; wake tells the listeners, once for many.
func (f *feed) add(r Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, r)
}

func (f *feed) seal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent[f.height] = f.open
	if f.height >= recentBlocks {
		delete(f.recent, f.height-recentBlocks)
	}
	f.open = nil
	f.height++
}

func (f *feed) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *feed) untilChanged() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// records returns what is known of a block without the files.
func (f *feed) records(block uint64) (recs []Record, sealed, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if block >= f.height {
		if block == f.height {
			return f.open, false, true
		}
		return nil, false, true
	}
	recs, known = f.recent[block]
	return recs, true, known
}

func (f *feed) sealedHeight() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.height
}
