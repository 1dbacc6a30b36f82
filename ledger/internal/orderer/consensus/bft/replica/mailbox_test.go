package replica

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// taken spells what a mailbox gives, so many messages at most, as the senders and what they have sent.
func taken(m *mailbox, most int) (out []string) {
	for range most {
		r, waits := m.take()
		if !waits {
			return out
		}
		from := fmt.Sprint(r.From)
		if r.From > firstClient {
			from = fmt.Sprint("client ", r.From-firstClient)
		}
		out = append(out, fmt.Sprintf("%s: %s", from, r.Message))
	}
	return out
}

func TestEachSenderHasItsTurn(t *testing.T) {
	m := newMailbox()
	for i := range 3 {
		m.put(2, 1, numbered(i))
	}
	m.put(1, 1, letter("x"))
	m.put(firstClient+1, 1, letter("y"))
	m.put(firstClient+2, 1, letter("z"), letter("zz"))
	assert.Equal(t, 7, m.len())
	assert.Equal(t, []string{"2: 0", "client 1: y", "1: x", "client 2: z"}, taken(m, 4))
	m.put(1, 1, letter("xx"))
	<-m.filled
	assert.Equal(t, []string{"2: 1", "client 2: zz", "1: xx", "2: 2"}, taken(m, 100))
	assert.Zero(t, m.len())
	assert.Empty(t, taken(m, 1))
	assert.Empty(t, m.boxes)
}

// TestWhatSendersMayHaveWaiting is bounded for each by itself, and what has come together stays together.
func TestWhatSendersMayHaveWaiting(t *testing.T) {
	few := make([]bft.Message, ofMember.messages)
	for i := range few {
		few[i] = numbered(i)
	}
	m := newMailbox()
	m.put(1, 1, few...)
	m.put(1, 1, letter("one too many"))
	m.put(2, ofMember.bytes+1, letter("large"))
	m.put(2, 1, letter("one byte too many"))
	m.put(3, ofMember.bytes-1, letter("two"), letter("of them"))
	m.put(3, 1, letter("room for this"))
	m.put(3, 1, letter("and not for this"))
	assert.Equal(t, ofMember.messages+4, m.len())
	assert.Equal(t, []string{"1: 0", "2: large", "3: two", "1: 1", "3: of them", "1: 2", "3: room for this", "1: 3"}, taken(m, 8))
	m.put(1, 1, few[:4]...)
	m.put(1, 1, letter("one too many"))
	m.put(2, 1, letter("again"))
	assert.Equal(t, ofMember.messages+1, m.len())
}

// TestAllClientsTogetherHaveRoom, however many somebody is; each of them has its own part of it.
func TestAllClientsTogetherHaveRoom(t *testing.T) {
	m := newMailbox()
	for client := firstClient + 1; m.byAll.messages < ofClients.messages; client++ {
		for range ofClient.messages + 1 {
			m.put(client, 1, letter("x"))
		}
		assert.Equal(t, ofClient.messages, m.boxes[client].messages)
	}
	late := firstClient + 1000
	m.put(late, 1, letter("late"))
	assert.Equal(t, ofClients.messages, m.len())
	m.put(1, 1, letter("a member's"))
	assert.Equal(t, []string{"1: a member's", "client 1: x"}, taken(m, 2))
	m.put(late, ofClients.bytes-ofClients.messages+2, letter("too large"))
	assert.Equal(t, ofClients.messages-1, m.len())
	m.put(late, 1, letter("late"))
	assert.Equal(t, ofClients.messages, m.len())
	for range ofClients.messages {
		m.take()
	}
	assert.Equal(t, room{}, m.byAll)
	m.put(late, ofClients.bytes+1, letter("large, and alone"))
	assert.Equal(t, 1, m.len())
}

// TestAMailboxIsFilledForAsLongAsAnythingWaits, so that who takes a part comes again.
func TestAMailboxIsFilledForAsLongAsAnythingWaits(t *testing.T) {
	m := newMailbox()
	m.put(1, 1, letter("a"), letter("b"))
	<-m.filled
	m.take()
	<-m.filled
	m.take()
	assert.Empty(t, m.filled)
}

// numbered is the letter of a number.
func numbered(i int) letter { return letter(fmt.Sprint(i)) }
