package serving

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MostReaders is how many streams of blocks or transactions a node sends at once: Fabric's default for its peers
// (peer.limits.concurrency.deliverService).
const MostReaders = 2500

// Readers counts the streams of those who have asked and may read. One organisation has at most half of them where it is
// named, so that none keeps all others out.
type Readers struct {
	mu      sync.Mutex
	streams int
	of      map[string]int
}

// Enter counts one more until it leaves, or errs, in Fabric's words, where a service has too many.
func (r *Readers) Enter(service, organisation string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := MostReaders
	if organisation != "" && r.of[organisation] >= MostReaders/2 {
		most = MostReaders / 2
	} else if r.streams < MostReaders {
		r.count(organisation, 1)
		return func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.count(organisation, -1)
		}, nil
	}
	return nil, status.Errorf(codes.ResourceExhausted, "too many requests for %s, exceeding concurrency limit (%d)", service, most)
}

func (r *Readers) count(organisation string, more int) {
	r.streams += more
	if organisation == "" {
		return
	}
	if r.of == nil {
		r.of = map[string]int{}
	}
	if r.of[organisation] += more; r.of[organisation] == 0 {
		delete(r.of, organisation)
	}
}
