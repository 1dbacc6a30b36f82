package follow

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// errElsewhere ends a stream whose orderer named another one as the leader.
type errElsewhere struct{ leader int }

func (e errElsewhere) Error() string { return fmt.Sprintf("orderer %d of the channel leads", e.leader) }

// verdict is what the end of a stream says of its orderer, and what is to be done.
type verdict struct {
	stopped   bool // the chain takes no more
	elsewhere bool // another orderer leads, and nobody is to blame
	leader    int  // which one, of the channel's addresses

	lies      bool        // it is never followed again
	takeBack  bool        // the open block may not be the order
	avoid     bool        // it is not followed for a while
	withholds bool        // it does not give what there is
	withheld  errWithheld // what it does not give
}

// judge gives the verdict on the orderer whose stream has ended with err, which is not that the peer ends. next is what the
// peer receives next, and needed by how many orderers' words it tells clients (chain.Chain.Needed).
func judge(err error, next chain.Position, needed int) (v verdict) {
	if v.stopped = errors.Is(err, chain.ErrStopped); v.stopped {
		return v
	}
	var elsewhere errElsewhere
	if v.elsewhere = errors.As(err, &elsewhere); v.elsewhere {
		v.leader = elsewhere.leader
		return v
	}
	v.lies = errors.Is(err, chain.ErrDishonest)
	// A liar may have sent more of the block than there is: others have no such place to go on from.
	v.takeBack = needed != 1 && next.Tx > 0 && (v.lies || status.Code(err) == codes.NotFound)
	v.avoid = v.takeBack || errors.Is(err, chain.ErrRewound)
	v.withholds = errors.As(err, &v.withheld)
	return v
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// failures are streams in a row that have brought nothing.
type failures struct {
	next time.Duration // the pause after the next round
	n    int           // of this round
}

func newFailures() *failures { return &failures{next: firstPause} }

// pause gives how long to wait after a stream that has ended. There is none before each of the orderers was tried, as
// another one may be reachable; one that has brought something begins anew.
func (f *failures) pause(brought bool, orderers int) (pause time.Duration) {
	if brought {
		*f = *newFailures()
	}
	if f.n++; f.n < orderers {
		return 0
	}
	pause = f.next
	*f = failures{next: min(2*pause, longestPause)}
	return pause
}
