package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// certain is how often in a row a topic is to be another one until that is believed: a broker may be behind the others.
const certain = 5

// fetch hands on the records of the topic, from an offset on. What is wrong with reading it is told once, and the next try
// comes after a pause: there are errors that the client hands out at every round trip.
func (n *Node) fetch(ctx context.Context, next int64, fetched chan<- []*kgo.Record) error {
	for tries, another, told := 0, 0, ""; ; {
		fetches := n.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failures := fetches.Errors()
		for _, failed := range failures {
			if err := n.judge(failed.Err, next); err != nil {
				return err
			}
			if errors.Is(failed.Err, kerr.UnknownTopicID) && n.isAnother(ctx) {
				if another++; another == certain {
					return fmt.Errorf("%w: topic %s was made anew: %w", ErrLost, n.cfg.Channel, failed.Err)
				}
			}
			if failed.Err.Error() != told {
				told = failed.Err.Error()
				log.Warnf("[channel: %s] reading the topic, trying again: %s", n.cfg.Channel, failed.Err)
			}
		}
		if records := fetches.Records(); len(records) > 0 {
			next = records[len(records)-1].Offset + 1
			n.read.Put(len(records))
			select {
			case fetched <- records:
			case <-ctx.Done():
				return nil
			}
		}
		if len(failures) == 0 {
			tries, another, told = 0, 0, ""
			continue
		}
		tries++
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseAfter(tries)):
		}
	}
}

// judge gives back an error that the node cannot go on with.
func (n *Node) judge(err error, next int64) error {
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) || errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("%w: topic %s, to be read from offset %d: %w", ErrLost, n.cfg.Channel, next, err)
	}
	return nil
}

// isAnother reports whether a broker knows the topic as another one than at the start. The client does not go on with such
// a topic, and fails for a topic that no longer is there, or not yet at each broker, with the same error.
func (n *Node) isAnother(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	t, err := n.describe(ctx)
	none := [16]byte{}
	return err == nil && n.topicID != none && t.TopicID != none && t.TopicID != n.topicID
}
