package replica

import (
	"sync"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// room is what may wait of a sender; what comes beyond it is lost, and sent again. One delivery may be larger.
type room struct{ messages, bytes int }

var (
	ofMember = room{4096, 32 << 20}
	ofClient = room{256, 1 << 20}
	// ofClients is of all together: anybody may be many clients.
	ofClients = room{4096, 32 << 20}
)

// mailbox keeps what members and clients have sent until the core takes it. Each member has room of its own, as have all
// clients together, and one message of each is taken in turn, a member's and a client's in turn too: no member, however much
// it sends, keeps out another (resource isolation; Clement et al., "Making Byzantine Fault Tolerant Systems Tolerate
// Byzantine Faults", NSDI 2009).
type mailbox struct {
	filled chan struct{} // has a value while anything waits

	mu      sync.Mutex
	boxes   map[bft.ID]*box // of those who have something waiting
	members []bft.ID        // of boxes, in the order of their turns
	clients []bft.ID
	byAll   room // what waits of clients
	client  bool // it is a client's turn
	waiting int  // messages
	waits   ops.Waits
}

// box is what waits of one sender.
type box struct {
	deliveries []delivery
	room
}

// delivery is messages that came together. Their bytes count until the last of them is taken.
type delivery struct {
	messages []bft.Message
	bytes    int
}

func newMailbox() *mailbox {
	return &mailbox{filled: make(chan struct{}, 1), boxes: map[bft.ID]*box{}}
}

// put keeps messages that came together in so many bytes, all of them or none.
func (m *mailbox) put(from bft.ID, bytes int, messages ...bft.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from]
	if b == nil {
		b = &box{}
	}
	more := room{len(messages), bytes}
	if from > firstClient {
		if !more.fits(b.room, ofClient) || !more.fits(m.byAll, ofClients) {
			return
		}
		m.byAll.add(more, 1)
	} else if !more.fits(b.room, ofMember) {
		return
	}
	if len(b.deliveries) == 0 {
		m.boxes[from] = b
		m.queue(from)
	}
	b.deliveries = append(b.deliveries, delivery{messages, bytes})
	b.add(more, 1)
	m.waiting += len(messages)
	m.waits.Put(len(messages))
	m.signal()
}

// fits reports whether there is room for it beside what waits.
func (r room) fits(waits, most room) bool {
	return waits == room{} || waits.messages+r.messages <= most.messages && waits.bytes+r.bytes <= most.bytes
}

func (r *room) add(more room, times int) {
	r.messages += times * more.messages
	r.bytes += times * more.bytes
}

// queue gives a sender a turn after all others. The caller holds the lock; so for signal and next.
func (m *mailbox) queue(from bft.ID) {
	if from > firstClient {
		m.clients = append(m.clients, from)
	} else {
		m.members = append(m.members, from)
	}
}

func (m *mailbox) signal() {
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

// take gives the message whose turn it is, if any waits.
func (m *mailbox) take() (received bft.Received, waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == 0 {
		return received, false
	}
	turns := &m.members
	if len(m.members) == 0 || m.client && len(m.clients) > 0 {
		turns = &m.clients
	}
	m.client = turns == &m.members
	from := (*turns)[0]
	*turns = (*turns)[1:]
	received = bft.Received{From: from, Message: m.next(from)}
	if m.waiting > 0 {
		m.signal()
	}
	return received, true
}

// next takes a sender's oldest message.
func (m *mailbox) next(from bft.ID) bft.Message {
	b := m.boxes[from]
	first := &b.deliveries[0]
	message := first.messages[0]
	first.messages = first.messages[1:]
	less := room{messages: 1}
	if len(first.messages) == 0 {
		less.bytes = first.bytes
		b.deliveries[0] = delivery{} // the slice's array lives on for a while
		b.deliveries = b.deliveries[1:]
	}
	b.add(less, -1)
	m.waiting--
	m.waits.Begin(1)
	if from > firstClient {
		m.byAll.add(less, -1)
	}
	if len(b.deliveries) == 0 {
		delete(m.boxes, from)
	} else {
		m.queue(from)
	}
	return message
}

func (m *mailbox) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}

// stands tells what it has counted of messages.
func (m *mailbox) stands() ops.Stood {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits.Stands()
}
