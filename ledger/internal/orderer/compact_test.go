package orderer

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// compacting has replicas of a kind begin their logs of votes anew at each stable checkpoint, and says where these are.
type compacting struct {
	consensus.Kind
	protocol replica.Protocol
	mu       sync.Mutex
	dirs     map[uint64]string
}

func compactingBy(t *testing.T, consensusType string, protocol func(consensus.Settings) replica.Protocol) *compacting {
	honest := kinds[consensusType]
	k := &compacting{Kind: *honest, dirs: map[uint64]string{}}
	k.Open = func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		k.mu.Lock()
		k.protocol, k.dirs[s.ID] = protocol(s), s.Dir
		k.mu.Unlock()
		n, err := replica.Open(s, host, protocol(s))
		if err == nil {
			n.CompactAt(4 << 10)
		}
		return n, err
	}
	kinds[consensusType] = &k.Kind
	t.Cleanup(func() { kinds[consensusType] = honest })
	return k
}

// stable reads the stable checkpoint that a replica's log of votes has, and how many records that takes.
func (k *compacting) stable(t *testing.T, id uint64) (seq uint64, records int) {
	votes, raw, err := votelog.Open(k.dirs[id], votelog.Options{})
	require.NoError(t, err)
	require.NoError(t, votes.Close())
	for _, r := range raw {
		record, err := k.protocol.DecodeRecord(r)
		require.NoError(t, err)
		if cp, stable, _ := k.protocol.Checkpoint(record); stable {
			seq = max(seq, cp.Seq)
		}
	}
	return seq, len(raw)
}

// TestALogOfVotesThatIsBegunAnewHasAllOfThem: a replica is where it was after a restart, in the view that it was in.
func TestALogOfVotesThatIsBegunAnewHasAllOfThem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, test := range []struct {
		consenter, consensusType string
		protocol                 func(consensus.Settings) replica.Protocol
	}{{"bft", channelconfig.BFT, replica.ProtocolOfPBFT}, {"zyzzyva", channelconfig.Zyzzyva, replica.ProtocolOfZyzzyva}} {
		t.Run(test.consenter, func(t *testing.T) {
			k := compactingBy(t, test.consensusType, test.protocol)
			c := newCluster(t, func(o *setup.Options) { agreeingBy(test.consenter, 4)(o); o.Mode = "stream" })
			var nodes [4]*Node
			var stops [4]func()
			start := func() {
				for i := 1; i < 4; i++ { // the first leader is away
					nodes[i], stops[i] = c.startNode(i)
				}
			}
			leader := func(i int) uint64 { return nodes[i].channels[ch].leader() }
			start()
			const txs = 140 // a checkpoint is every 128 entries
			var want []string
			order := func(text string) {
				c.orderAt(1+len(want)%3, text)
				want = append(want, text)
			}
			for i := range txs {
				order(fmt.Sprint("tx", i))
			}
			c.texts(1, ch, &streampb.Position{Block: 1}, txs)
			var before [4]uint64
			for i := 1; i < 4; i++ {
				before[i] = leader(i)
				require.NotEqual(t, uint64(1), before[i])
				require.NotZero(t, before[i])
			}
			for i := 1; i < 4; i++ {
				stops[i]()
			}
			for i := 1; i < 4; i++ {
				seq, records := k.stable(t, uint64(i)+1)
				require.GreaterOrEqual(t, seq, uint64(128), "orderer %d", i+1)
				require.Less(t, records, txs, "orderer %d", i+1)
			}
			start()
			for i := 1; i < 4; i++ {
				var first uint64
				require.Eventually(t, func() bool { first = leader(i); return first != 0 }, patience, time.Millisecond)
				require.Equal(t, before[i], first, "orderer %d", i+1)
			}
			order("after")
			for i := 1; i < 4; i++ {
				assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)), "orderer %d", i+1)
			}
		})
	}
}
