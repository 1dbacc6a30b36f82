package configtool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// Where orderers may lie, one more than may must give the same configuration: then a correct one is among them. A seal would
// not do: whose seal counts stands in the configuration itself.

// slow is how long the other orderers may take once enough agree: one of them may have a newer configuration.
const slow = time.Second

// leaveNetwork is what to do about orderers that count among the network's and will not answer again. The tool must not find
// out by itself which these are: who orders stands in the configuration, of which one orderer's word says nothing.
const leaveNetwork = `orderers that were removed for good and stopped must leave "nodes" in ` + network.FileName

// answered is one orderer's configuration.
type answered struct {
	index int
	now   *current
	err   error
}

// agreed asks all orderers, and takes the newest configuration that enough of them give.
func (c *client) agreed(ctx context.Context) (*current, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answered, len(c.addresses))
	for index, address := range c.addresses {
		go func() {
			a := answered{index: index}
			a.err = c.one(ctx, address, func(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) (err error) {
				a.now, err = c.fetchFrom(ctx, orderer)
				return err
			})
			answers <- a
		}()
	}
	var best *current
	var late <-chan time.Time
	all, same := make([]answered, len(c.addresses)), map[string]int{}
	for range c.addresses {
		select {
		case a := <-answers:
			if all[a.index] = a; a.err != nil {
				continue
			}
			same[a.now.hash]++
			if same[a.now.hash] == c.need && (best == nil || a.now.config.Sequence > best.config.Sequence) {
				best = a.now
			}
			if best != nil && late == nil {
				late = time.After(slow)
			}
		case <-late:
			return best, nil
		}
	}
	if best == nil {
		return nil, c.disagreement(all)
	}
	return best, nil
}

// disagreement says in one line what each orderer has answered.
func (c *client) disagreement(all []answered) error {
	var said []string
	first := map[string]string{} // by hash: who has given it first
	for _, a := range all {
		address := c.addresses[a.index]
		if a.err != nil {
			said = append(said, fmt.Sprintf("%s: %s", address, a.err))
			continue
		}
		text := fmt.Sprintf("%s: configuration %d of block %d", address, a.now.config.Sequence, a.now.block)
		if first[a.now.hash] == "" {
			for _, other := range all[:a.index] {
				if other.err == nil {
					text += fmt.Sprintf(" (another one than %s)", c.addresses[other.index])
					break
				}
			}
			first[a.now.hash] = address
		} else {
			text += fmt.Sprintf(" (the same as %s)", first[a.now.hash])
		}
		said = append(said, text)
	}
	err := fmt.Errorf("%d of the %d orderers must give the same configuration: %s", c.need, len(c.addresses), strings.Join(said, "; "))
	if slices.ContainsFunc(all, func(a answered) bool { return a.err != nil }) {
		err = fmt.Errorf("%w (%s)", err, leaveNetwork)
	}
	return err
}

// sendToMany is send where orderers may lie: neither the success nor the refusal that one of them tells counts. Each try is
// another orderer's, so that one which does nothing holds nobody up.
func (c *client) sendToMany(ctx context.Context, env *commonpb.Envelope, madeOf uint64) (*current, error) {
	// Once one may have ordered it, a refusal can mean that it is in force already (see send).
	unsure, ordered, refusals := false, false, 0
	refused := map[int]bool{}
	for try := 0; ; try++ {
		told, at, index, sent, sendErr := c.broadcastFrom(ctx, try, env)
		success := sendErr == nil && told.Status == commonpb.Status_SUCCESS
		unsure, ordered = unsure || sent || success, ordered || success
		now, err := c.agreed(ctx)
		switch {
		case err == nil && now.isOf(env):
			return now, nil
		case err == nil && now.config.Sequence > madeOf && ordered:
			return nil, ErrOvertaken
		case err == nil && sendErr == nil && !success && at != nil && at.config.Sequence >= madeOf:
			refused[index] = true
			if refusals++; len(refused) >= c.need && (!unsure || refusals > unsureTries) {
				return nil, fmt.Errorf("refused: %s: %s", told.Status, told.Info)
			}
		}
		if !pause(ctx) {
			return nil, outOfTime(ctx, told, sendErr, err)
		}
	}
}

// pause says whether there is time for another try.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(retryPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// broadcastFrom hands an update to one orderer, and to the next one where that fails. Index is whose answer it is, and at the
// configuration that it has where it refuses the update; nil: it does not say. One that is behind refuses what the others take.
// Sent says whether one that failed may have ordered it all the same.
func (c *client) broadcastFrom(ctx context.Context, first int, env *commonpb.Envelope) (told *ordererpb.BroadcastResponse, at *current, index int, sent bool, err error) {
	count := len(c.addresses)
	for i := range count {
		index = (first + i) % count
		var mayBe bool
		err = c.one(ctx, c.addresses[index], func(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) (err error) {
			told, mayBe, err = broadcast(ctx, orderer, env)
			if err == nil && told.Status != commonpb.Status_SUCCESS {
				at, _ = c.fetchFrom(ctx, orderer) // its refusal counts for nothing where that fails
			}
			return err
		})
		if err == nil {
			return told, at, index, sent, nil
		}
		sent = sent || mayBe
		err = fmt.Errorf("%s: %w", c.addresses[index], err)
	}
	return told, at, index, sent, err
}
