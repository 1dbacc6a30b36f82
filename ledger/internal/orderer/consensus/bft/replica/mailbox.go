package replica

import (
	"sync"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// What a sender may have waiting for the core; what comes beyond it is lost, and sent again. One delivery may be larger.
const (
	queuedMessages = 4096
	mailBytes      = 32 << 20
)

// mailbox keeps what members and clients have sent until the core takes it. Each sender has room of its own, and one
// message of each is taken in turn, members and clients in turn too: nobody, however much it sends, keeps out another
// (resource isolation; Clement et al., "Making Byzantine Fault Tolerant Systems Tolerate Byzantine Faults", NSDI 2009).
type mailbox struct {
	filled chan struct{} // has a value while anything waits

	mu      sync.Mutex
	boxes   map[bft.ID]*box // of those who have something waiting
	members []bft.ID        // of boxes, in the order of their turns
	clients []bft.ID
	client  bool // it is a client's turn
	waiting int  // messages
}

// box is what waits of one sender.
type box struct {
	deliveries      []delivery
	messages, bytes int
}

// delivery is messages that came together, and share one piece of memory.
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
	} else if b.messages+len(messages) > queuedMessages || b.bytes+bytes > mailBytes {
		return
	}
	if len(b.deliveries) == 0 {
		m.boxes[from] = b
		m.queue(from)
	}
	b.deliveries = append(b.deliveries, delivery{messages, bytes})
	b.messages += len(messages)
	b.bytes += bytes
	m.waiting += len(messages)
	m.signal()
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
	b.messages--
	m.waiting--
	if len(first.messages) == 0 {
		b.bytes -= first.bytes
		b.deliveries[0] = delivery{} // the slice's array lives on for a while
		b.deliveries = b.deliveries[1:]
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
