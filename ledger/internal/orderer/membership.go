package orderer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// An orderer that is no consenter of a channel follows it: it fetches sealed blocks from the consenters, and serves them
// like any other orderer. It stops at the block that makes it a consenter. The snapshot that the others send it
// then stands for that block at least, so its chain is never ahead of its log.

// run takes part in the channel until ctx ends, as a consenter or as a follower.
func (ch *channel) run(ctx context.Context) error {
	for {
		if part := ch.part(); part != nil {
			if err := ch.agree(ctx, part); !errors.Is(err, consensus.ErrRemoved) {
				return err
			}
			close(ch.taking.Swap(nil).removed)
			ch.LeaderChanged(part.Leader(), 0)
			log.Infof("[channel: %s] %s is no longer a consenter and follows", ch.name, ch.owner.cfg.Name)
		}
		if err := ch.follow(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if err := ch.openPart(); err != nil {
			return err
		}
	}
}

// agree runs the consenter, and watches whether this orderer still is one.
func (ch *channel) agree(ctx context.Context, part consensus.Consenter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	id := ch.group.Load().id
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ch.untilEvicted(ctx) {
			cancel(consensus.ErrRemoved)
		}
	}()
	err := part.Run(ctx)
	evicted := errors.Is(context.Cause(ctx), consensus.ErrRemoved)
	cancel(nil)
	<-done
	if removed := err == nil && evicted || errors.Is(err, consensus.ErrRemoved); !removed {
		return err
	}
	if ch.group.Load().id == id { // the ledger lacks the configuration that has removed it
		if err := markLeft(ch.partDir(id)); err != nil {
			return err
		}
	}
	return consensus.ErrRemoved
}

// leftFile in the folder of an id's log says that the id has been removed: its log ends before the chain does.
const leftFile = "left"

func markLeft(dir string) error {
	return durable.Replace(dir, leftFile, nil, func(*durable.Writer) error { return nil })
}

func hasLeft(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, leftFile))
	return err == nil
}

// follow fetches blocks until this orderer is a consenter, and errs where its own ledger fails.
func (ch *channel) follow(ctx context.Context) error {
	for !ch.named() && ctx.Err() == nil {
		ch.answers.begin()
		before := ch.Height()
		current, err := ch.followAll(ctx)
		if err != nil {
			return err
		}
		if ch.named() {
			return ch.Sync()
		}
		brought := ch.Height() > before
		if !current && !brought && ctx.Err() == nil {
			ch.answers.warn(ch.name)
		}
		ch.answers.pause(ctx, followPause, brought || current)
	}
	return nil
}

// followAll asks one orderer after the other. Current: a consenter has no newer block, so that this orderer seems to have
// all there is. Where enough of them say so, one at least that does not lie, a turn without a block was no slow source's.
func (ch *channel) followAll(ctx context.Context) (current bool, err error) {
	before, idle := ch.Height(), 0
	for _, address := range ch.turns.sort(ch.sources()) {
		err := ch.followOne(ctx, address)
		switch {
		case errors.Is(err, chain.ErrOwn):
			return false, err
		case ch.named() || ctx.Err() != nil:
			return idle > 0, nil
		case errors.Is(err, errCurrent):
			idle++
		default:
			ch.answers.add(address, err)
			log.Debugf("[channel: %s] following %s: %s", ch.name, address, err)
		}
	}
	if idle >= ch.Bundle().Orderer.Trust().Answers && ch.Height() == before {
		ch.turns.forget()
	}
	return idle > 0, nil
}

// errCurrent is told of a consenter that has no newer block than this orderer.
var errCurrent = errors.New("it has no newer block")

// followOne fetches blocks from one orderer, for as long as it has new ones: it may itself follow others. A consenter that
// sends nothing is asked for its newest block, which tells one that has no more from one that is frozen.
func (ch *channel) followOne(ctx context.Context, address string) error {
	err := ch.followWhile(ctx, address)
	if !errors.Is(err, errSilent) || !ch.knowsAsConsenter(address) {
		return err
	}
	newest, err := ch.fetch(ctx, source{address, &ch.turns}, seekNewest())
	switch {
	case err != nil:
		return fmt.Errorf("its newest block: %w", err)
	case newest.Header.Number < ch.Height():
		return errCurrent
	}
	return ch.followWhile(ctx, address) // the block came just now
}

// knowsAsConsenter reports whether another orderer is a consenter, as far as this follower knows. One whose newest
// configuration still names itself lacks the block that has removed it, and so may lack any.
func (ch *channel) knowsAsConsenter(address string) bool {
	g := ch.group.Load()
	if g.id != 0 {
		return false
	}
	for id, m := range g.members {
		if m.address == address && !slices.Contains(g.leaving, id) {
			return true
		}
	}
	return false
}

// followWhile fetches blocks for as long as an orderer sends some and none has made this one a consenter.
func (ch *channel) followWhile(ctx context.Context, address string) error {
	seek := &ordererpb.SeekInfo{Start: seekNumber(ch.Height()), Stop: seekNumber(math.MaxUint64)}
	_, err := ch.importWhile(ctx, address, seek, func() bool { return !ch.named() })
	return err
}

// importWhile appends an orderer's blocks for as long as it has more of them and they are wanted. One that sends nothing is
// left: it may be frozen. So is any other after a while, for one that wants to keep this orderer behind may send some, and one
// that sends little of a block before that.
// Brought says whether any was new: a rival may have had it before.
func (ch *channel) importWhile(
	ctx context.Context, address string, seek *ordererpb.SeekInfo, wanted func() bool,
) (brought bool, err error) {
	next := seek.Start.GetSpecified().GetNumber()
	ch.fetching.Lock()
	ctx, turn := ch.turns.begin(ctx, address, next, ch.largestEver())
	ch.fetching.Unlock()
	defer turn.end()
	err = ch.deliver(ctx, address, seek, turn.heard, func(stream ordererpb.AtomicBroadcast_DeliverClient) error {
		for ; wanted(); next++ {
			appended, err := ch.importNext(stream, next)
			if err != nil {
				return err
			}
			if appended {
				brought = true
				turn.again()
			}
		}
		return nil
	})
	cause := context.Cause(ctx)
	switch {
	case err == nil || errors.Is(err, chain.ErrOwn):
		return brought, err
	case errors.Is(cause, errLate) && brought:
		return brought, err // it was no fault
	}
	ch.fetching.Lock()
	defer ch.fetching.Unlock()
	ch.turns.judge(address, cause, ch.largestEver())
	switch {
	case errors.Is(cause, errSilent):
		return brought, errSilent
	case errors.Is(cause, errSlow):
		return brought, fmt.Errorf("block %d: %w", next, errSlow)
	case errors.Is(cause, errLate):
		return brought, fmt.Errorf("block %d did not come within its turn of %s: %w", next, turn.length, err)
	}
	return brought, err
}

const followPause = 200 * time.Millisecond

// largestEver is how many bytes a message has at most with a block that any configuration has allowed: what is fetched may
// be older than the one in force, or newer.
func (ch *channel) largestEver() int {
	return channelconfig.MostBytes(ch.Bundle().Orderer.ConsensusType) + messageSlack
}

// largest is how many bytes a message with a block has at most that the configuration in force allows.
func (ch *channel) largest() int { return ch.Bundle().Orderer.AbsoluteMaxBytes + messageSlack }

// named reports whether this orderer is a consenter and has not been removed. Every orderer of an external log is one.
func (ch *channel) named() bool {
	id := ch.group.Load().id
	return ch.kind.Log.External || id != 0 && !hasLeft(ch.partDir(id))
}

// CatchUp implements consensus.Host: it asks the other orderers
// until it has the blocks.
func (ch *channel) CatchUp(ctx context.Context, height uint64) error {
	for ch.Height() < height {
		if err := ctx.Err(); err != nil {
			return err
		}
		ch.answers.begin()
		before := ch.Height()
		if err := ch.catchUpFromAny(ctx, ch.turns.sort(ch.sources()), height); ch.Height() >= height || errors.Is(err, chain.ErrOwn) {
			return err
		}
		brought := ch.Height() > before
		if !brought && ctx.Err() == nil {
			ch.answers.warn(ch.name)
		}
		ch.answers.pause(ctx, catchUpPause, brought)
	}
	return nil
}

const catchUpPause = 50 * time.Millisecond

// sources are the addresses of other orderers: of the consenters, and of those that the organisations name. They are in
// random order, so that those who are behind do not all ask the same one; that of a small map is far from even.
func (ch *channel) sources() (out []string) {
	g := ch.group.Load()
	own := ch.owner.cfg.KnownAs()
	for id, m := range g.members {
		if id != g.id && m.address != own && !slices.Contains(out, m.address) { // one that was added again has two ids
			out = append(out, m.address)
		}
	}
	for _, address := range g.bundle.Orderer.Addresses {
		if address != own && !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// deliver asks an orderer for blocks. Blocks are signed, so its certificate need not be the one that our configuration
// names, which may be an old one. heard is called when bytes come.
func (ch *channel) deliver(ctx context.Context, address string, seek *ordererpb.SeekInfo, heard func(bytes int), read func(ordererpb.AtomicBroadcast_DeliverClient) error) error {
	conn, err := cluster.DialHearing(address, ch.owner.certificate, ch.Bundle().Orderer.TLSRoots, nil, ch.largestEver(), heard)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := ordererpb.NewAtomicBroadcastClient(conn).Deliver(ctx)
	if err != nil {
		return err
	}
	data, err := proto.Marshal(seek)
	if err != nil {
		return err
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, ch.name, ch.signer, nil, data)
	if err != nil {
		return err
	}
	if err := stream.Send(env); err != nil {
		return err
	}
	return read(stream)
}

// importNext appends a source's next block, unless another source has brought it meanwhile.
func (ch *channel) importNext(stream ordererpb.AtomicBroadcast_DeliverClient, number uint64) (appended bool, err error) {
	block, err := receive(stream)
	ch.fetching.Lock()
	defer ch.fetching.Unlock()
	// One that sends another block than the next could take this ledger beyond what is asked of two sources.
	if err == nil && block.GetHeader().GetNumber() != number {
		err = fmt.Errorf("block %d in place of block %d", block.GetHeader().GetNumber(), number)
	}
	if err == nil && number < ch.Height() {
		return false, nil
	}
	if err == nil {
		err = ch.Import(block)
	}
	if err != nil {
		return false, fmt.Errorf("after block %d: %w", ch.Height()-1, err)
	}
	ch.waiting.ordered(block.GetData().GetData()) // no entry of the log brings them
	if ch.Bundle() != ch.group.Load().bundle {
		ch.regroup()
	}
	return true, nil
}

func receive(stream ordererpb.AtomicBroadcast_DeliverClient) (*commonpb.Block, error) {
	response, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if response.GetBlock() == nil {
		return nil, fmt.Errorf("it answered %s", response.GetStatus())
	}
	return response.GetBlock(), nil
}

func seekNewest() *ordererpb.SeekPosition {
	return &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Newest{Newest: &ordererpb.SeekNewest{}}}
}

func seekNumber(n uint64) *ordererpb.SeekPosition {
	return &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: n}}}
}
