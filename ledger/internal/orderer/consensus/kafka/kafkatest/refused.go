// Package kafkatest is what tests of Kafka ordering share.
package kafkatest

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Refused is a broker's answer to a write that it does not take.
func Refused(request *kmsg.ProduceRequest, why *kerr.Error) kmsg.Response {
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range request.Topics {
		refused := kmsg.NewProduceResponseTopic()
		refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, why.Code
			refused.Partitions = append(refused.Partitions, p)
		}
		response.Topics = append(response.Topics, refused)
	}
	return response
}
