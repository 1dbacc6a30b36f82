package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestSignaturesOfBlocksToComeAreSmall: they are kept before anybody can check them, of a thousand blocks.
func TestSignaturesOfBlocksToComeAreSmall(t *testing.T) {
	s := newSeals(nil)
	sized := func(bytes int) *commonpb.MetadataSignature {
		return &commonpb.MetadataSignature{Signature: make([]byte, bytes)}
	}
	s.receive(2, sealMessage(7, sized(72)))
	assert.Len(t, s.early[7][2].GetSignature(), 72)
	s.receive(3, sealMessage(7, sized(13<<20)))
	assert.NotContains(t, s.early[7], uint64(3))
	s.receive(3, sealMessage(earlyBlocks, sized(72)))
	assert.Len(t, s.early, 1)
}
