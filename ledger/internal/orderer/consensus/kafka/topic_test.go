package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
)

func TestALostTopicEndsTheNode(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	m.at, m.from = chain.Applied{Index: 100}, chain.Applied{Index: 90} // as blocks say that are there; the topic is new
	first, stop, ended := s.run(m, time.Hour)
	require.ErrorIs(t, <-ended, ErrLost)
	stop()
	m.from = chain.Applied{Index: 1} // it has some records of the last block, and not all
	second, _, ended := s.run(m, time.Hour)
	require.ErrorIs(t, <-ended, ErrLost)
	require.False(t, first.Connected() || second.Connected())
}

// TestATopicThatEndsBeforeTheOpenBlockDidEndsTheNode: followers have had what is missing.
func TestATopicThatEndsBeforeTheOpenBlockDidEndsTheNode(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	n, stop, _ := s.run(m, time.Hour)
	connected(t, n)
	order(t, n, "a")
	await(t, m, nil, []string{"a"})
	stop()
	m = newMachine()
	m.lost = 1
	n, stop, _ = s.run(m, time.Hour)
	connected(t, n)
	stop()
	m = newMachine()
	m.lost = 2
	n, stop, ended := s.run(m, time.Hour)
	require.ErrorIs(t, <-ended, ErrLost)
	stop()
	assert.False(t, n.Connected())
}

func TestTopicsThatForgetOrHaveNoOrderAreRefused(t *testing.T) {
	for name, change := range map[string]func(*kmsg.CreateTopicsRequestTopic){
		"has 2 partitions, 1 is accepted":               func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 2 },
		"min.insync.replicas=1, at least 2 is accepted": func(*kmsg.CreateTopicsRequestTopic) {},
		"retention.ms=1000, -1 is accepted":             set("retention.ms", "1000"),
		"has 2 replicas, at least 3 is accepted":        func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 2 },
		"cleanup.policy=compact, delete is accepted":    set("cleanup.policy", "compact"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			request := kmsg.NewPtrCreateTopicsRequest()
			r := kmsg.NewCreateTopicsRequestTopic()
			r.Topic, r.NumPartitions, r.ReplicationFactor = topic, 1, 3
			if name[:3] != "min" {
				set("min.insync.replicas", "2")(&r)
			}
			change(&r)
			request.Topics = append(request.Topics, r)
			response, err := request.RequestWith(context.Background(), s.client)
			require.NoError(t, err)
			require.Zero(t, response.Topics[0].ErrorCode)
			_, _, ended := s.run(newMachine(), time.Hour)
			err = <-ended
			require.ErrorIs(t, err, errTopic)
			require.ErrorContains(t, err, name)
		})
	}
}

func set(name, value string) func(*kmsg.CreateTopicsRequestTopic) {
	return func(r *kmsg.CreateTopicsRequestTopic) {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, kmsg.StringPtr(value)
		r.Configs = append(r.Configs, config)
	}
}
