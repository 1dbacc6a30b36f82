package chain

import "sync"

// feed is the sealed, durable height, for calls that wait for blocks.
type feed struct {
	mu      sync.Mutex
	height  uint64
	changed chan struct{} // nil while no call waits
}

// rise makes one more block visible.
func (f *feed) rise() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.height++
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

func (f *feed) sealed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.height
}
