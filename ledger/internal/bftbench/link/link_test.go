package link

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/process"
)

// pair is two ends of a connection, the first of which is shaped.
func pair(t *testing.T, shape *Shape) (near, far *Conn) {
	t.Helper()
	a, b := net.Pipe()
	near, far = New(a, shape), New(b, nil)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

func TestFramesArriveInOrderAndNotBeforeTheirDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	near, far := pair(t, &Shape{Delay: delay})
	begun := time.Now()
	for number := range byte(3) {
		near.Append([]byte{Core, number})
	}
	for number := range byte(3) {
		frame, err := far.Next()
		require.NoError(t, err)
		assert.Equal(t, []byte{Core, number}, frame)
	}
	assert.GreaterOrEqual(t, time.Since(begun), delay)
}

func TestFramesWaitForTheBandwidthThatOthersHaveTaken(t *testing.T) {
	shape := &Shape{Bandwidth: 1 << 20}
	near, far := pair(t, shape)
	begun := time.Now()
	shape.due(32 << 10) // of another connection: a thirty-second of a second
	near.Append([]byte{Core})
	_, err := far.Next()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(begun), time.Second/32)
}

func TestAnEndDoesNotWaitForWhatIsDueLater(t *testing.T) {
	near, _ := pair(t, nil)
	alarm, err := process.NewAlarm()
	require.NoError(t, err)
	defer func() { require.NoError(t, alarm.Close()) }()
	assert.True(t, near.await(alarm, time.Now().Add(time.Millisecond)))
	require.NoError(t, near.Close())
	assert.False(t, near.await(alarm, time.Now().Add(time.Hour)))
}
