package serving

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MostReaders is how many streams of blocks or transactions a node sends at once: Fabric's default for its peers
// (peer.limits.concurrency.deliverService).
const MostReaders = 2500

// Readers counts the streams of those who have asked and may read.
type Readers struct{ streams atomic.Int64 }

// Enter counts one more until it leaves, or errs, in Fabric's words, where a service has too many.
func (r *Readers) Enter(service string) (leave func(), err error) {
	if r.streams.Add(1) > MostReaders {
		r.leave()
		return nil, status.Errorf(codes.ResourceExhausted, "too many requests for %s, exceeding concurrency limit (%d)", service, MostReaders)
	}
	return r.leave, nil
}

func (r *Readers) leave() { r.streams.Add(-1) }
