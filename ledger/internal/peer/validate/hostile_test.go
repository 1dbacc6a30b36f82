package validate_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// TestManyEndorsementsReadALargeResultOnce: each signature is over the whole result, so 64 bad ones by somebody who may
// endorse would have 64 times a transaction's bytes copied and hashed, by every peer.
func TestManyEndorsementsReadALargeResultOnce(t *testing.T) {
	const size = 4 << 20
	w := peertest.New(t, peertest.Options{})
	raw, _ := w.Make(peertest.Tx{Change: func(p *peertest.Parts) {
		p.Action.Response.Payload = make([]byte, size)
		p.Endorse = func(e []*peerpb.Endorsement) []*peerpb.Endorsement {
			bad := &peerpb.Endorsement{Endorser: e[0].Endorser, Signature: e[0].Signature[1:]}
			for range 63 {
				e = append([]*peerpb.Endorsement{bad}, e...)
			}
			return e
		}
	}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, code := validate.Check(raw, w.Bundle)
	runtime.ReadMemStats(&after)
	assert.Equal(t, peerpb.TxValidationCode_VALID, code)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*size))
}
