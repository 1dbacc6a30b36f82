package orderer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// fromReplica is a message of a protocol that tolerates liars, as it says itself from a sender.
func fromReplica(sender uint64, body []byte) proto.Message {
	const core = 1
	w := &bft.Writer{}
	w.Uint(core)
	w.Uint(sender)
	w.Chunk(body)
	return wrapperspb.Bytes(w.Bytes)
}

// TestNobodySpeaksInAnothersName: PBFT's commits and Raft's messages carry no signature, and are the word of the one
// whose certificate they come under.
func TestNobodySpeaksInAnothersName(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*setup.Options)
		message func(from, to uint64) proto.Message
	}{
		{"raft", func(*setup.Options) {}, func(from, to uint64) proto.Message {
			return &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(from), To: proto.Uint64(to), Term: proto.Uint64(1)}
		}},
		{"bft", bftOf(4), func(from, _ uint64) proto.Message { return fromReplica(from, pbft.Encode(&pbft.Commit{Seq: 1})) }},
		{"zyzzyva", agreeingBy("zyzzyva", 4), func(from, _ uint64) proto.Message {
			return fromReplica(from, zyzzyva.Encode(&zyzzyva.Accuse{}))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, test.change)
			node := c.open(0)
			defer func() { require.NoError(t, node.close()) }()
			channel := node.channels[ch]
			group := channel.group.Load()
			own, heard := 0, 0
			for certified, m := range group.members {
				for sender := range group.members {
					payload, err := proto.Marshal(test.message(sender, group.id))
					require.NoError(t, err)
					err = node.step(m.client, &ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
						ConsensusRequest: &ordererpb.ConsensusRequest{Channel: ch, Payload: payload},
					}}, nil)
					if sender != certified {
						assert.Equal(t, codes.PermissionDenied, status.Code(err), "%d in the name of %d: %v", certified, sender, err)
						continue
					}
					require.NoError(t, err)
					if own++; certified != group.id {
						heard++
					}
				}
			}
			require.Equal(t, len(group.members), own)
			_, waiting := channel.part().Queued()
			assert.Equal(t, heard, waiting, "each other's own message, and no other one")
		})
	}
}
