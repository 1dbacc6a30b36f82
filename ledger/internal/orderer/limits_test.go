package orderer

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/replica"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/smartbftpb"
)

// widest is how many transactions an entry has had since the first configuration.
type widest struct {
	mu         sync.Mutex
	configured bool
	entry      int
}

// measured is a core whose entries are measured as they are applied.
type measured struct {
	bft.Core
	by *widest
}

func (m *measured) Step(now bft.Time, in bft.Input) bft.Effects {
	e := m.Core.Step(now, in)
	m.by.mu.Lock()
	defer m.by.mu.Unlock()
	for _, o := range e.Apply {
		switch {
		case o.Entry == nil:
		case o.Entry.Config:
			m.by.configured = true
		case m.by.configured:
			m.by.entry = max(m.by.entry, len(o.Entry.Txs))
		}
	}
	return e
}

// TestLimitsChangeWhileOrderersRun: all keep to the configuration's, whether or not they have started since.
func TestLimitsChangeWhileOrderersRun(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string
		protocol func(consensus.Settings) replica.Protocol
	}{
		"bft":     {channelconfig.BFT, replica.ProtocolOfPBFT},
		"zyzzyva": {channelconfig.Zyzzyva, replica.ProtocolOfZyzzyva},
	} {
		t.Run(name, func(t *testing.T) {
			var seen widest
			usual := kinds[c.kind]
			t.Cleanup(func() { kinds[c.kind] = usual })
			kind := *usual
			kind.Open = func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
				protocol := c.protocol(s)
				plain := protocol.New
				protocol.New = func(o bft.Oracle, state bft.State, records []bft.Record) bft.Core {
					return &measured{plain(o, state, records), &seen}
				}
				return replica.Open(s, host, protocol)
			}
			kinds[c.kind] = &kind
			limitsChange(t, name, &seen)
		})
	}
}

func limitsChange(t *testing.T, consenter string, seen *widest) {
	c := newCluster(t, agreeingBy(consenter, 4))
	var stop func()
	for i := range 4 {
		stop = c.start(i)
	}
	c.orderAt(0, "before")
	r, err := c.ask(0, c.updateTo(oneEach, ordererAdmins))
	require.NoError(t, err)
	require.Equal(t, commonpb.Status_SUCCESS, r.Status, r.Info)
	c.orderAt(3, "after")
	stop()
	c.start(3)
	var clients errgroup.Group
	for client := range 24 {
		clients.Go(func() error {
			for n := range 3 {
				if err := c.ordersAt(client%4, fmt.Sprintf("client %d, %d", client, n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, clients.Wait())
	seen.mu.Lock()
	defer seen.mu.Unlock()
	assert.True(t, seen.configured)
	assert.Equal(t, 1, seen.entry)
}

// oneEach has an entry hold one transaction.
func oneEach(config *commonpb.Config) (*commonpb.Config, error) {
	to := proto.Clone(config).(*commonpb.Config)
	value := to.ChannelGroup.Groups["Orderer"].Values["ConsensusType"]
	var kind ordererpb.ConsensusType
	var options smartbftpb.Options
	if err := proto.Unmarshal(value.Value, &kind); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(kind.Metadata, &options); err != nil {
		return nil, err
	}
	options.RequestBatchMaxCount = 1
	var err error
	if kind.Metadata, err = proto.Marshal(&options); err != nil {
		return nil, err
	}
	value.Value, err = proto.Marshal(&kind)
	return to, err
}
