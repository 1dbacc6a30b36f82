package replica

import "sync/atomic"

// mostBacklog is how many bytes of entries may wait for the disk and the ledger before a replica hears nobody: the others
// go on without one that is too slow, and it fetches later what they have ordered.
const mostBacklog = 64 << 20

// backlog is what the core has ordered and the ledger does not have yet.
type backlog struct {
	bytes   atomic.Int64
	drained chan struct{} // has a value after there was too much
}

func newBacklog() *backlog { return &backlog{drained: make(chan struct{}, 1)} }

func (b *backlog) add(bytes int) { b.bytes.Add(int64(bytes)) }

// done says that the ledger has so many bytes more. Applying.
func (b *backlog) done(bytes int) {
	now := b.bytes.Add(-int64(bytes))
	if now > mostBacklog || now+int64(bytes) <= mostBacklog {
		return
	}
	select {
	case b.drained <- struct{}{}:
	default:
	}
}

func (b *backlog) full() bool { return b.bytes.Load() > mostBacklog }
