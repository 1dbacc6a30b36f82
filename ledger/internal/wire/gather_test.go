package wire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
)

func gathered() (net.Conn, *sink) {
	s := &sink{began: time.Now()}
	return New(0).conn(s), s
}

func TestWhatComesDuringAWriteGoesOutTogetherAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := gathered()
		s.stuck = make(chan struct{})
		write(t, c, "a")
		synctest.Wait()
		for _, text := range []string{"b", "c", "d"} {
			write(t, c, text)
		}
		close(s.stuck)
		synctest.Wait()
		assert.Equal(t, []string{"a", "bcd"}, s.writes)
		assert.Equal(t, []time.Duration{0, 0}, s.at, "nothing waits for a clock")
	})
}

func TestGatheringLosesReordersAndRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		c, s := gathered()
		var want, got bytes.Buffer
		for i := range 2000 {
			part := bytes.Repeat([]byte{byte(i)}, random.IntN(held/8))
			want.Write(part)
			write(t, c, string(part))
			if random.IntN(10) == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		for _, part := range s.writes {
			got.WriteString(part)
		}
		assert.True(t, bytes.Equal(want.Bytes(), got.Bytes()))
	})
}

func TestAWriterWaitsForAReceiverThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := gathered()
		s.stuck = make(chan struct{})
		write(t, c, "a")
		synctest.Wait()
		write(t, c, string(make([]byte, held)))
		written := make(chan error)
		go func() {
			_, err := c.Write([]byte("b"))
			written <- err
		}()
		synctest.Wait()
		assert.Empty(t, written, "what is held is bounded")
		close(s.stuck)
		require.NoError(t, <-written)
		synctest.Wait()
		assert.Len(t, s.writes, 3)
	})
}

func TestAFailedGatheredWriteIsToldByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := gathered()
		s.fails = io.ErrClosedPipe
		write(t, c, "a")
		synctest.Wait()
		_, err := c.Write([]byte("b"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

func TestClosingAGatheringConnectionSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := gathered()
		s.stuck = make(chan struct{})
		write(t, c, "a")
		synctest.Wait()
		write(t, c, "b")
		require.NoError(t, c.Close(), "closing does not wait")
		_, err := c.Write([]byte("c"))
		require.ErrorIs(t, err, net.ErrClosed)
		assert.False(t, s.closed)
		close(s.stuck)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, s.writes)
		assert.True(t, s.closed)

		idle, below := gathered()
		require.NoError(t, idle.Close())
		assert.True(t, below.closed)
		_, err = idle.Write([]byte("a"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestWhatWasWrittenBeforeATLSConnectionClosesArrives although crypto/tls puts a deadline that has come on a connection
// that it closes, and the receiver begins to read only then.
func TestWhatWasWrittenBeforeATLSConnectionClosesArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := ca.New("ca", "Org")
		require.NoError(t, err)
		certPEM, keyPEM, err := authority.Issue(ca.Request{CommonName: "node", Hosts: []string{"127.0.0.1"}})
		require.NoError(t, err)
		certificate, err := tls.X509KeyPair(certPEM, keyPEM)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(authority.CertPEM()))

		below, far := net.Pipe() // holds nothing: who writes waits for the reader
		server := tls.Server(New(0).conn(below), &tls.Config{Certificates: []tls.Certificate{certificate}})
		client := tls.Client(far, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
		shaken := make(chan error, 1)
		go func() { shaken <- server.Handshake() }()
		require.NoError(t, client.Handshake())
		require.NoError(t, <-shaken)
		write(t, server, "the last answer")
		synctest.Wait() // it is being written, and nobody reads yet
		require.NoError(t, server.Close())
		got, err := io.ReadAll(client)
		require.NoError(t, err)
		assert.Equal(t, "the last answer", string(got))
	})
}
