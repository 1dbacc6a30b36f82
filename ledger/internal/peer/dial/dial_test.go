package dial

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
)

// TestOnlyTheNamedCertificateIsTaken where one is named, though the same authority vouches for others.
func TestOnlyTheNamedCertificateIsTaken(t *testing.T) {
	authority, err := ca.New("tlsca", "example.com")
	require.NoError(t, err)
	issue := func() tls.Certificate {
		certPEM, keyPEM, err := authority.Issue(ca.Request{CommonName: "orderer", Hosts: []string{"127.0.0.1"}})
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		require.NoError(t, err)
		return pair
	}
	shown, other, roots := issue(), issue(), x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority.CertPEM()))
	address, _ := servingtest.Serve(t, func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, health.NewServer()) },
		grpc.Creds(credentials.NewServerTLSFromCert(&shown)))

	ask := func(named []byte) error {
		conn, err := Open(Target{Address: address, Roots: roots, Certificate: named}, Own{TLS: true})
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	assert.NoError(t, ask(nil))
	assert.NoError(t, ask(shown.Certificate[0]))
	err = ask(other.Certificate[0])
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, errOtherCertificate.Error())
}
