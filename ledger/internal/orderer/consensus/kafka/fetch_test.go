package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestATopicThatIsMadeAnewEndsTheNode that reads it. Its client stays with the old one, whose id the node has from making the
// topic, or from finding it.
func TestATopicThatIsMadeAnewEndsTheNode(t *testing.T) {
	for name, starts := range map[string]int{"made": 1, "found": 2} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, kfake.NumBrokers(1)) // with several, a leader that changes may tell of the loss
			n, stop, ended := s.run(newMachine(), time.Hour)
			connected(t, n)
			for range starts - 1 {
				stop()
				n, stop, ended = s.run(newMachine(), time.Hour)
				connected(t, n)
			}
			require.NoError(t, s.brokers.DeleteTopic(topic))
			require.NoError(t, s.brokers.CreateTopic(topic, 1, nil))
			err := <-ended
			require.ErrorIs(t, err, ErrLost)
			require.ErrorIs(t, err, kerr.UnknownTopicID)
		})
	}
}

// TestAReadThatIsRefusedIsTriedAgainAfterAPause: the client hands such an error out at every round trip.
func TestAReadThatIsRefusedIsTriedAgainAfterAPause(t *testing.T) {
	const refusals = 5
	s := newSite(t)
	var mu sync.Mutex
	var at []time.Time
	s.brokers.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.brokers.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return nil, nil, false
	})
	refused := s.brokers.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: refusals})
	m := newMachine()
	n, _, _ := s.run(m, time.Hour)
	connected(t, n)
	order(t, n, "a")
	await(t, m, nil, []string{"a"})
	require.Equal(t, refusals, refused.Hits())
	mu.Lock()
	defer mu.Unlock()
	// The client reads one answer ahead, so a pause shows between a read and the next but one.
	for i := 1; i < refusals; i++ {
		assert.GreaterOrEqual(t, at[i+1].Sub(at[i-1]), time.Duration(i)*retryPause)
	}
}
