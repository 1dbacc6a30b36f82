// Package follow receives a channel's transactions from the orderers: from one at
// a time, the leader where it is known, as soon as they are ordered, and from the next one
// where that one fails or withholds. The chain checks what is received; this package only fetches it, each position once.
package follow

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/dial"
	"github.com/qioi/qioi/ledger/internal/probe"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var log = ops.Logger("peer.follow")

const (
	// messageSlack is what a batch may have beside its largest transaction.
	messageSlack = 8 << 20
	// settled is how long a peer stays with an orderer before it follows a hint: while
	// orderers elect, two may name each other.
	settled = time.Second
	// patience is how long a block may be overdue, and how often another orderer is asked for its newest one.
	patience = 5 * time.Second
)

// Chain is where transactions go.
type Chain interface {
	ID() string
	Bundle() *channelconfig.Bundle
	Position() chain.Position
	Rewound() <-chan struct{}
	Add(ctx context.Context, raw []byte) error
	Seal(ctx context.Context, header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) error
	Attest(ctx context.Context, orderer string, word chain.Word) error
	Say(orderer string, word chain.Word) chain.Judgement
	Distrust(ctx context.Context, why error) error
	Height() uint64
	Needed() int
	Reached() chain.Position
	Standing(orderer string) (agreed chain.Position, against bool)
}

// Follower follows one channel.
type Follower struct {
	Name        string // of this peer: peers start at different orderers
	Signer      protoutil.Signer
	Chain       Chain
	TLS         bool
	Certificate *tls.Certificate // shown where an orderer asks; may be nil
	Patience    time.Duration    // with an orderer that withholds; 5 s by default
}

// Run follows until ctx ends (nil) or the chain stops (its error).
func (f *Follower) Run(ctx context.Context) error {
	choice, vain := newChoice(f.firstOrderer(), cmp.Or(f.Patience, patience)), newFailures()
	rewound := f.Chain.Rewound()
	for {
		addresses := f.Chain.Bundle().Orderer.Addresses
		if len(addresses) == 0 {
			log.Warnf("[%s] The channel's configuration names no orderer (Endpoints)", f.Chain.ID())
			if !wait(ctx, longestPause) {
				return nil
			}
			continue
		}
		before := f.Chain.Position()
		if gone := f.Chain.Rewound(); gone != rewound { // its closing may come later
			f.blame(choice, choice.sent.takenBack(before.Block))
			rewound = gone
		}
		address, err := choice.pick(addresses)
		if err != nil {
			return fmt.Errorf("channel %s: %w", f.Chain.ID(), err)
		}
		err = f.follow(ctx, address, choice)
		if ctx.Err() != nil {
			return nil
		}
		now := f.Chain.Position()
		v := judge(err, now, f.Chain.Needed())
		switch {
		case v.stopped:
			return err
		case v.elsewhere:
			choice.prefer(v.leader)
			continue
		case v.lies:
			f.blame(choice, address)
		}
		log.Warnf("[%s] orderer %s: %s", f.Chain.ID(), address, err)
		if v.takeBack {
			if err := f.Chain.Distrust(ctx, err); errors.Is(err, chain.ErrStopped) {
				return err
			}
			choice.sent.takenBack(f.Chain.Position().Block) // which of its senders lied is not known
			rewound = f.Chain.Rewound()
		}
		if v.avoid {
			choice.avoid(address, time.Now())
		}
		if v.withholds {
			choice.suspect(address, v.withheld, addresses, time.Now())
			continue // after a patience there is no need for a pause
		}
		if !wait(ctx, vain.pause(now != before, len(addresses))) {
			return nil
		}
	}
}

// wait waits, and reports whether ctx goes on.
func wait(ctx context.Context, pause time.Duration) bool {
	if pause == 0 {
		return true
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// blame has an orderer followed no more; several: nobody.
func (f *Follower) blame(choice *choice, address string) {
	if address == several {
		return
	}
	choice.liars[address] = true
	log.Errorf("[%s] orderer %s is no longer followed", f.Chain.ID(), address)
}

// firstOrderer spreads the peers over the orderers until one names the leader.
func (f *Follower) firstOrderer() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(f.Name)) // a hash never errs
	return int(h.Sum32() & 0xffff)
}

// dial connects to an orderer. Where orderers may lie, one must not answer in another one's name.
func (f *Follower) dial(address string) (*grpc.ClientConn, error) {
	orderer := f.Chain.Bundle().Orderer
	to := dial.Target{Address: address, Roots: orderer.TLSRoots}
	if f.Chain.Needed() > 1 {
		to.Certificate = orderer.ServerCertificate(address)
	}
	return dial.Open(to, dial.Own{TLS: f.TLS, Certificate: f.Certificate},
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(orderer.AbsoluteMaxBytes+messageSlack)))
}

// follow receives from one orderer, until it fails, withholds something, or names another one, who is trusted, as the leader.
func (f *Follower) follow(ctx context.Context, address string, choice *choice) error {
	conn, err := f.dial(address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	rewound := f.Chain.Rewound()
	var heard probe.Watch
	watch := f.watch(address, choice)
	attendants := []func(context.Context) error{
		func(ctx context.Context) error { return heard.Run(ctx, conn, func() bool { return true }) }, watch.run,
	}
	ctx, stop := attend(ctx, rewound, append(attendants, f.witnesses(address, choice)...)...)
	defer stop()
	request, err := f.request()
	if err != nil {
		return err
	}
	// What was ordered may have been allowed by another configuration than the one in force.
	most := channelconfig.MostBytes(f.Chain.Bundle().Orderer.ConsensusType) + messageSlack
	stream, err := streampb.NewStreamClient(conn).Follow(ctx, request, grpc.MaxCallRecvMsgSize(most))
	if err != nil {
		return cmp.Or(context.Cause(ctx), err) // a server may end its handshake and say nothing more
	}
	begun := time.Now()
	for first := true; ; first = false {
		at := f.Chain.Position()
		if f.Chain.Rewound() != rewound {
			return chain.ErrRewound // what comes next here follows what was taken back
		}
		watch.waits(at, &f.Chain.Bundle().Orderer)
		batch, err := stream.Recv()
		heard.Heard()
		watch.heard()
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if first {
			log.Infof("[%s] Following orderer %s from block [%d], transaction %d on", f.Chain.ID(), address, at.Block, at.Tx)
		}
		choice.sent.note(address, at, batch)
		if err := f.take(ctx, address, batch); err != nil {
			return err
		}
		choice.sent.forget(f.Chain.Height())
		// The newest configuration counts: it may have orderers whom this stream began without.
		if leader := slices.Index(f.Chain.Bundle().Orderer.Addresses, batch.Leader); leader >= 0 && choice.trusted(batch.Leader, time.Now()) && time.Since(begun) > settled {
			return errElsewhere{leader}
		}
	}
}

// attend gives a context that ends when one of those who attend finds fault with the orderer, or what it sent was taken
// back, until stop is called: an idle stream, one from a frozen orderer and one from a liar look alike.
func attend(parent context.Context, rewound <-chan struct{}, attendants ...func(context.Context) error) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-rewound: // this orderer may send nothing else
			cancel(chain.ErrRewound)
		case <-ctx.Done():
		}
	}()
	var running sync.WaitGroup
	for _, run := range attendants {
		running.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	return ctx, func() {
		cancel(nil)
		running.Wait()
	}
}

// watch watches over what an orderer gives.
func (f *Follower) watch(address string, choice *choice) *watch {
	w := &watch{ask: f.newest, progress: progress{patience: choice.patienceNow(), next: f.Chain.Position()}}
	if block, owes := choice.owed(address); owes {
		w.progress.claims(address, block)
	}
	for _, other := range f.Chain.Bundle().Orderer.Addresses {
		if other != address && !choice.liars[other] {
			w.others = append(w.others, witness{other, choice.suspected[other].until})
		}
	}
	return w
}

func (f *Follower) request() (*commonpb.Envelope, error) {
	at := f.Chain.Position()
	return f.ask(&streampb.Position{Block: at.Block, Tx: at.Tx})
}

func (f *Follower) ask(position *streampb.Position) (*commonpb.Envelope, error) {
	data, err := proto.Marshal(position)
	if err != nil {
		return nil, err
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, f.Chain.ID(), f.Signer, nil, data)
	return env, err
}

func (f *Follower) take(ctx context.Context, address string, batch *streampb.Batch) error {
	for _, item := range batch.Items {
		var err error
		switch kind := item.Kind.(type) {
		case *streampb.Item_Tx:
			err = f.Chain.Add(ctx, kind.Tx)
		case *streampb.Item_Seal:
			err = f.Chain.Seal(ctx, kind.Seal.GetHeader(), kind.Seal.GetMetadata())
		default:
			err = errors.New("it sent an item that is neither a transaction nor a seal")
		}
		if err != nil {
			return err
		}
	}
	if batch.Word == nil || !f.counts(address) {
		return nil
	}
	word, err := wordOf(batch.Word)
	if err != nil {
		return fmt.Errorf("%w: %w", chain.ErrDishonest, err)
	}
	return f.Chain.Attest(ctx, address, word)
}
