package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sink is the network below a connection: it notes what is written, and when.
type sink struct {
	net.Conn
	mu     sync.Mutex
	writes []string
	at     []time.Duration
	began  time.Time
	fails  error
	stuck  chan struct{} // not nil: a write waits for it
	closed bool
}

func (s *sink) Write(b []byte) (int, error) {
	if s.stuck != nil {
		<-s.stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return 0, s.fails
	}
	s.writes, s.at = append(s.writes, string(b)), append(s.at, time.Since(s.began))
	return len(b), nil
}

func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) Close() error                     { s.closed = true; return nil }

const gap = 8 * time.Millisecond

func paced(p *Pacer) (*conn, *sink) {
	s := &sink{began: time.Now()}
	return &conn{Conn: s, pacer: p}, s
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	n, err := c.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

func TestASilentConnectionIsWrittenToAtOnceAndACrowdWaitsForTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := paced(New(gap))
		time.Sleep(time.Second)
		s.began = time.Now()
		write(t, c, "a")
		assert.Equal(t, []string{"a"}, s.writes)
		time.Sleep(gap)
		write(t, c, "b") // silent for a gap
		for _, text := range []string{"c", "d", "e"} {
			time.Sleep(time.Millisecond)
			write(t, c, text)
		}
		time.Sleep(3 * gap)
		write(t, c, "f")
		synctest.Wait()
		// The first that waits had no beat before it; the others come a gap after that beat.
		assert.Equal(t, []string{"a", "b", "c", "de", "f"}, s.writes)
		assert.Equal(t, []time.Duration{0, gap, gap + time.Millisecond, 2*gap + time.Millisecond, 4*gap + 3*time.Millisecond}, s.at)
	})
}

func TestConnectionsOfAProcessShareItsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(gap)
		a, first := paced(p)
		b, second := paced(p)
		for range 50 {
			write(t, a, "x")
			time.Sleep(time.Millisecond)
			write(t, b, "y")
		}
		time.Sleep(2 * gap)
		synctest.Wait()
		beat := first.at[2]
		for _, at := range append(first.at[2:], second.at[2:]...) {
			assert.Zero(t, (at-beat)%gap, at)
		}
		assert.LessOrEqual(t, len(first.at)+len(second.at), 2*(50/8+3))
	})
}

func TestNothingIsLostReorderedOrRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		c, s := paced(New(gap))
		var want bytes.Buffer
		for i := range 2000 {
			part := bytes.Repeat([]byte{byte(i)}, random.IntN(held/8))
			want.Write(part)
			write(t, c, string(part))
			time.Sleep(time.Duration(random.Int64N(int64(2 * gap))))
		}
		time.Sleep(2 * gap)
		synctest.Wait()
		var got bytes.Buffer
		for _, part := range s.writes {
			got.WriteString(part)
		}
		assert.True(t, bytes.Equal(want.Bytes(), got.Bytes()))
	})
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := paced(New(gap))
		write(t, c, "first")
		write(t, c, string(make([]byte, held-1)))
		assert.Len(t, s.writes, 1)
		write(t, c, "x")
		assert.Len(t, s.writes, 2, "a full buffer waits for no beat")
		time.Sleep(2 * gap)
	})
}

func TestAFailedHeldWriteIsToldByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := paced(New(gap))
		write(t, c, "a")
		s.fails = io.ErrClosedPipe
		write(t, c, "b")
		time.Sleep(2 * gap)
		synctest.Wait()
		_, err := c.Write([]byte("c"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

func TestAConnectionThatIsStuckHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(gap)
		stuck, below := paced(p)
		other, s := paced(p)
		write(t, stuck, "a")
		write(t, other, "a")
		below.stuck = make(chan struct{})
		write(t, stuck, "b")
		write(t, other, "b")
		time.Sleep(2 * gap)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, s.writes)
		require.NoError(t, stuck.Close(), "closing does not wait for it")
		assert.True(t, below.closed)
		close(below.stuck)
	})
}

func TestClosingSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := paced(New(gap))
		write(t, c, "a")
		write(t, c, "b")
		require.NoError(t, c.Close())
		assert.Equal(t, []string{"a", "b"}, s.writes)
		assert.True(t, s.closed)
		time.Sleep(2 * gap)
	})
}

func TestWithoutAPacerConnectionsAreLeftAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	assert.Same(t, l, (*Pacer)(nil).Listener(l))
	assert.NotSame(t, l, New(0).Listener(l))
}
