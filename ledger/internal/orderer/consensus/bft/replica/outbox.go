package replica

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// leavingBytes is how much may be on its way to a member before what comes next is lost, and said again when it asks.
const leavingBytes = 64 << 20

// outbox knows how much is on its way to each member: one that does not read would have this orderer's memory fill up.
type outbox struct {
	host    consensus.Host
	mu      sync.Mutex
	leaving map[bft.ID]*atomic.Int64 // bytes
}

func newOutbox(host consensus.Host) *outbox {
	return &outbox{host: host, leaving: map[bft.ID]*atomic.Int64{}}
}

func (o *outbox) to(id bft.ID) *atomic.Int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	bytes := o.leaving[id]
	if bytes == nil {
		bytes = &atomic.Int64{}
		o.leaving[id] = bytes
	}
	return bytes
}

// send brings a member a payload, unless too much is on its way to it. One that is larger goes alone.
func (o *outbox) send(id bft.ID, payload *wrapperspb.BytesValue) {
	if !o.host.Knows(id) {
		return // it is no member
	}
	leaving, bytes := o.to(id), int64(len(payload.Value))
	if now := leaving.Add(bytes); now > leavingBytes && now > bytes {
		leaving.Add(-bytes)
		return
	}
	o.host.Send(id, consensus.Message{Payload: payload, Sent: func(bool) { leaving.Add(-bytes) }})
}

// regroup begins anew: who is no member any longer needs no count.
func (o *outbox) regroup() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.leaving)
}
