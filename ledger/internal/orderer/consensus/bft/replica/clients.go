package replica

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

const (
	// firstClient is an id that no member has: the ids from there on are those of clients.
	firstClient bft.ID = 1 << 63
	// queuedAnswers is how many messages may wait for a client before it is taken for one that does not read.
	queuedAnswers = 4096
)

// clients are those who are told each answer as soon as it may leave.
type clients struct {
	mu    sync.Mutex
	last  bft.ID
	told  map[bft.ID]chan consensus.Told
	group bft.Group
}

func newClients() *clients {
	return &clients{last: firstClient, told: map[bft.ID]chan consensus.Told{}}
}

// Attend implements consensus.Attended.
func (n *Node) Attend() *consensus.Attendance {
	if n.protocol.Address == nil {
		return nil
	}
	id, told := n.clients.join()
	return &consensus.Attendance{
		Told: told, Leave: func() { n.clients.leave(id) },
		Hear: func(message []byte) error { return n.hear(id, message) },
	}
}

// hear takes a client's message. Its transactions come by Submit, where the orderer checks them.
func (n *Node) hear(from bft.ID, message []byte) error {
	if !n.protocol.Hears(message) { // anybody may be a client: nothing else of it is read
		return status.Error(codes.InvalidArgument, "not a client's message")
	}
	m, err := n.protocol.Decode(message)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	n.mail.put(from, len(message), m)
	return nil
}

func (c *clients) join() (bft.ID, <-chan consensus.Told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	told := make(chan consensus.Told, queuedAnswers)
	c.told[c.last] = told
	if c.group.Members != nil {
		told <- members(c.group)
	}
	return c.last, told
}

func (c *clients) leave(id bft.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.told, id)
}

func members(g bft.Group) consensus.Told { return consensus.Told{Epoch: g.Epoch, Members: g.Members} }

// regroup tells all who orders from now on.
func (c *clients) regroup(g bft.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !g.Equal(c.group) {
		c.group = g
		c.tellAll(members(g))
	}
}

// answer tells all what is said of entries.
func (c *clients) answer(answers []bft.Answer, p Protocol) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range answers {
		if len(c.told) == 0 {
			return
		}
		c.tellAll(consensus.Told{Message: p.Encode(p.Address(a.Message, a.Entry.IDs()...))})
	}
}

// tellAll tells each. The caller holds the lock; so for tell.
func (c *clients) tellAll(t consensus.Told) {
	for id := range c.told {
		c.tell(id, t)
	}
}

func (c *clients) tell(id bft.ID, t consensus.Told) {
	told := c.told[id]
	if told == nil {
		return
	}
	select {
	case told <- t:
	default:
		delete(c.told, id)
		close(told)
	}
}

// deliver brings a client what is for it alone.
func (c *clients) deliver(id bft.ID, bodies [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range bodies {
		c.tell(id, consensus.Told{Message: body})
	}
}
