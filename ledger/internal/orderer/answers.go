package orderer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// fetchPauseMost bounds the pause between two rounds of asking for blocks. It doubles while they bring none.
	fetchPauseMost = 2 * time.Second
	// sayOther is between two warnings of different answers.
	sayOther = time.Second
)

// answers is what the orderers that were asked for blocks have answered. It is of the goroutine that fetches blocks.
type answers struct {
	round []string // in the round under way: address and answer
	vain  int      // rounds in a row that have brought no block

	said time.Time // when a warning was last written
	text string    // what it said
}

func (a *answers) add(address string, err error) {
	a.round = append(a.round, fmt.Sprintf("%s: %s", address, err))
}

// begin begins a round.
func (a *answers) begin() { a.round = nil }

// warn says what was answered: at once where that is new, else every sayAgain.
func (a *answers) warn(channel string) {
	slices.Sort(a.round)
	text := strings.Join(a.round, "; ")
	if len(a.round) == 0 {
		text = "no other orderer is known"
	}
	since := time.Since(a.said)
	if since < sayAgain && (text == a.text || since < sayOther) {
		return
	}
	a.said, a.text = time.Now(), text
	log.Warnf("[channel: %s] no blocks from other orderers: %s", channel, text)
}

// pause waits before the next round. Brought says whether this one has brought a block.
func (a *answers) pause(ctx context.Context, shortest time.Duration, brought bool) {
	if a.vain++; brought {
		a.vain = 0
	}
	select {
	case <-ctx.Done():
	case <-time.After(pauseAfter(shortest, a.vain)):
	}
}

// pauseAfter is the pause after so many rounds in a row without a block.
func pauseAfter(shortest time.Duration, vain int) time.Duration {
	return min(shortest<<min(max(vain-1, 0), 10), fetchPauseMost)
}
