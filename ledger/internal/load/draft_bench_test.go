package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// BenchmarkDraft is what a client spends on a transaction beside the network:
// three signatures and the messages around them.
func BenchmarkDraft(b *testing.B) {
	authority, err := ca.New("ca", "org1.example.com")
	require.NoError(b, err)
	cert, key, err := authority.Issue(ca.Request{CommonName: "User1", Unit: "client"})
	require.NoError(b, err)
	signer, err := identity.NewSigner("Org1MSP", cert, key)
	require.NoError(b, err)
	d, err := newDrafter(signer, "mychannel", "kv")
	require.NoError(b, err)
	work := newKV(workloadOptions{accounts: 10_000, valueSize: 1024, seed: 1}, "put", 0)
	payload := make([]byte, 3000)

	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		request, err := d.proposal(work.call(i), time.Now())
		require.NoError(b, err)
		_, err = d.submit(request.GetTransactionId(), &commonpb.Envelope{Payload: payload})
		require.NoError(b, err)
		_, err = d.status(request.GetTransactionId())
		require.NoError(b, err)
	}
}
