package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/qioi/qioi/ledger/internal/ops"
)

const (
	maxReplicas = 3
	// topicPause is between two looks for brokers that are not there yet.
	topicPause   = 250 * time.Millisecond
	topicTimeout = 5 * time.Second
)

// errTopic is what ends a node whose topic would not keep what it is given.
var errTopic = errors.New("the topic is not fit for a ledger")

// prepareTopic makes the channel's topic unless it is there, and returns when it can be used.
func (n *Node) prepareTopic(ctx context.Context) error {
	for told := ""; ; {
		err := n.tryTopic(ctx)
		if err == nil || errors.Is(err, errTopic) {
			return err
		}
		if err.Error() != told {
			told = err.Error()
			log.Warnf("[channel: %s] waiting for the Kafka brokers: %s", n.cfg.Channel, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(topicPause):
		}
	}
}

func (n *Node) tryTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	err := n.createTopic(ctx)
	if err == nil {
		log.Infof("[channel: %s] Created the topic, %d replica(s)", n.cfg.Channel, n.replicas())
		return nil
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return errors.Join(n.checkPartitions(ctx), n.checkSettings(ctx))
	}
	return err
}

func (n *Node) replicas() int { return min(maxReplicas, len(n.cfg.Brokers)) }

// settings make a topic keep what was acknowledged: on all replicas but one, without end, and
// without electing a leader that lacks some of it.
func (n *Node) settings() map[string]string {
	return map[string]string{
		"min.insync.replicas":            strconv.Itoa(max(1, n.replicas()-1)),
		"unclean.leader.election.enable": "false",
		"cleanup.policy":                 "delete",
		"retention.ms":                   "-1",
		"retention.bytes":                "-1",
		"max.message.bytes":              strconv.Itoa(n.cfg.largest()),
	}
}

func (n *Node) createTopic(ctx context.Context) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = n.cfg.Channel, 1, int16(n.replicas())
	for name, value := range n.settings() {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, kmsg.StringPtr(value)
		topic.Configs = append(topic.Configs, config)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	request.TimeoutMillis = int32(topicTimeout.Milliseconds())
	response, err := request.RequestWith(ctx, n.client)
	if err != nil {
		return err
	}
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", t.Topic, err)
		}
		n.topicID = t.TopicID
	}
	return nil
}

// describe asks the brokers what topic there is.
func (n *Node) describe(ctx context.Context) (*kmsg.MetadataResponseTopic, error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(n.cfg.Channel)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, n.client)
	if err != nil {
		return nil, err
	}
	if len(response.Topics) != 1 {
		return nil, fmt.Errorf("topic %s: the brokers describe %d topics in place of it", n.cfg.Channel, len(response.Topics))
	}
	if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("topic %s: %w", n.cfg.Channel, err)
	}
	return &response.Topics[0], nil
}

// checkPartitions refuses a topic of several partitions, which have no order among each other, and one of too few replicas,
// which takes nothing while a broker is down or has all on fewer of them than it should.
func (n *Node) checkPartitions(ctx context.Context) error {
	t, err := n.describe(ctx)
	if err != nil {
		return err
	}
	if len(t.Partitions) != 1 {
		return fmt.Errorf("%w: %s has %d partitions, 1 is accepted", errTopic, n.cfg.Channel, len(t.Partitions))
	}
	if have := len(t.Partitions[0].Replicas); have < n.replicas() {
		return fmt.Errorf("%w: %s has %d replicas, at least %d is accepted", errTopic, n.cfg.Channel, have, n.replicas())
	}
	n.topicID = t.TopicID
	return nil
}

// checkSettings refuses a topic that may forget.
func (n *Node) checkSettings(ctx context.Context) error {
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, n.cfg.Channel
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, n.client)
	if err != nil {
		return err
	}
	for _, r := range response.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("settings of topic %s: %w", n.cfg.Channel, err)
		}
		var problems []string
		for _, setting := range r.Configs {
			if problem := n.checkSetting(setting.Name, setting.Value); problem != "" {
				problems = append(problems, problem)
			}
		}
		if len(problems) > 0 {
			return fmt.Errorf("%w: %s has %s", errTopic, n.cfg.Channel, strings.Join(problems, "; "))
		}
	}
	return nil
}

// checkSetting says what is wrong with a setting; nothing if it is as it should be.
func (n *Node) checkSetting(name string, value *string) string {
	want, ours := n.settings()[name]
	if !ours || value == nil || *value == want {
		return ""
	}
	if name == "min.insync.replicas" || name == "max.message.bytes" {
		least, _ := strconv.Atoi(want) // it is our own number
		if have, err := strconv.Atoi(*value); err == nil && have >= least {
			return ""
		}
		want = "at least " + want
	}
	return fmt.Sprintf("%s=%s, %s is accepted", name, *value, want)
}

// clientLog passes the client's messages to the log: errors as warnings, the rest at debug level.
type clientLog struct{ channel string }

func (l clientLog) Level() kgo.LogLevel {
	if log.Enabled(ops.Debug) {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelError
}

func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	at := ops.Debug
	if level == kgo.LogLevelError {
		at = ops.Warn
	}
	log.Log(2, at, "[channel: %s] %s %s", l.channel, msg, strings.TrimSpace(fmt.Sprintln(keyvals...)))
}
