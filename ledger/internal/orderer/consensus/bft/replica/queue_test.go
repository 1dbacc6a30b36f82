package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestAQueueKnowsForHowLongItemsWait: an item waits until it is begun, however long it has been taken.
func TestAQueueKnowsForHowLongItemsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string]()
		assert.Equal(t, ops.Stood{}, q.stands())
		q.put("first")
		time.Sleep(time.Second)
		q.put("second")
		taken := q.take()
		q.put("third")
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Length: 3, Came: 3, Waited: 4 * time.Second}, q.stands(), "who has taken two is not there yet")
		q.begin(taken)
		time.Sleep(time.Second)
		q.begin(q.take())
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Came: 3, Waited: 5 * time.Second}, q.stands())
	})
}

// TestAMailboxKnowsForHowLongMessagesWait, those that it has no room for left out.
func TestAMailboxKnowsForHowLongMessagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailbox()
		m.put(1, 10, numbered(1), numbered(2))
		m.put(1, 1, make([]bft.Message, ofMember.messages)...)
		time.Sleep(time.Second)
		_, waits := m.take()
		require.True(t, waits)
		time.Sleep(time.Second)
		_, waits = m.take()
		require.True(t, waits)
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Came: 2, Waited: 3 * time.Second}, m.stands())
	})
}
