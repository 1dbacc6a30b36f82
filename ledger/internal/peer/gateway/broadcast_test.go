package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
)

// TestAnOlderConfigurationTakesNoOrdererBack: calls that run while the configuration changes come with either.
func TestAnOlderConfigurationTakesNoOrdererBack(t *testing.T) {
	older := *peertest.New(t, peertest.Options{Orderers: []string{"127.0.0.1:1"}}).Bundle
	newer := older
	newer.Sequence++
	newer.Orderer.Addresses = []string{"127.0.0.1:1", "127.0.0.1:2"}
	cast := newBroadcaster(newDialer(false, nil, nil), time.Minute)
	defer cast.close()
	before := cast.cluster(&older)
	after := cast.cluster(&newer)
	assert.Same(t, before.orderers[0], after.orderers[0], "it stays")
	assert.Len(t, after.orderers, 2)
	assert.Same(t, after, cast.cluster(&older))
	assert.Same(t, after, cast.cluster(&newer))
}
