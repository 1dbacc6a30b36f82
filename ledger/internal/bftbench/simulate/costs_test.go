package simulate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
)

// lengths notes how many bytes it is to verify, and to prove.
type lengths struct {
	fixed
	verified, tagged map[int]bool
}

func (l lengths) VerifyBroadcast(_ auth.Party, data, _ []byte) bool {
	l.verified[len(data)] = true
	return true
}

func (l lengths) Tag(_ auth.Party, data []byte) []byte {
	l.tagged[len(data)] = true
	return nil
}

// TestWhatIsSignedIsHashed: a request with all that it writes, and a reply with all its answers.
func TestWhatIsSignedIsHashed(t *testing.T) {
	run, _ := small()
	run.Load = ycsb.Load{Records: 1000, Operations: 2, Burst: 3, Value: 1 << 10, Padding: 5}
	requests := lengths{verified: map[int]bool{}}
	links := lengths{verified: map[int]bool{}, tagged: map[int]bool{}}
	var c Costs
	request, err := c.measureRequests(t.Context(), run, auth.Suite{Requests: fixed("signed")})
	require.NoError(t, err)
	writes := run.Load.Burst * run.Load.Operations
	assert.Greater(t, len(request.Body), writes*run.Load.Value+run.Load.Burst*run.Load.Padding)
	assert.Less(t, len(request.Body), run.Load.Size())
	none := auth.Suite{Links: links, Requests: requests}
	c.measureProofs(none, none, request)
	assert.Equal(t, map[int]bool{len(request.Body): true}, requests.verified)
	assert.Equal(t, map[int]bool{0: true, 16 << 10: true}, links.tagged, "a reply costs more per byte")
}
