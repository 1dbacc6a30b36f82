package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// Where orderers may lie, one more than may lie must say that a transaction is ordered, and as many that it is not to be:
// then a correct one is among them. So many are asked at first, and a further one for each that fails, refuses, or has not
// answered in time.

const (
	// slow is how long an orderer may take to answer before another one is asked as well. It is less than the time in which
	// orderers leave a leader, so that they all wait for the transaction then.
	slow = time.Second
	// demotedFor is how long an orderer that was slow or failed is asked last, whoever names it as the leader.
	demotedFor = 10 * time.Second
)

// ranks is the order in which orderers are asked.
type ranks struct {
	mu    sync.Mutex
	order []int
	until map[int]time.Time
}

func newRanks(count int) *ranks {
	r := &ranks{until: map[int]time.Time{}}
	for i := range count {
		r.order = append(r.order, i)
	}
	return r
}

func (r *ranks) now() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

func (r *ranks) move(index, to int) {
	at := slices.Index(r.order, index)
	r.order = slices.Insert(slices.Delete(r.order, at, at+1), to, index)
}

// demote has one asked last.
func (r *ranks) demote(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until[index] = time.Now().Add(demotedFor)
	r.move(index, len(r.order)-1)
}

// promote has one asked first, unless it was demoted a short while ago.
func (r *ranks) promote(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.order[0] != index && time.Now().After(r.until[index]) {
		r.move(index, 0)
	}
}

// consenters are the orderers whose answers count, in the order in which they are asked: one that is no consenter orders nothing.
func (c *cluster) consenters() []int {
	return slices.DeleteFunc(c.ranks.now(), func(index int) bool { return !c.bundle.Orderer.IsConsenter(c.orderers[index].address) })
}

// told is one orderer's answer.
type told struct {
	index    int
	response *ordererpb.BroadcastResponse
	err      error
}

// polling is one transaction's way to enough answers.
type polling struct {
	cluster   *cluster
	tx        *commonpb.Envelope
	need      int
	unasked   []int
	waiting   map[int]bool
	answers   chan told
	successes []told
	exhausted int // orderers that have too much to do
	refused   int // orderers that say it is the client's fault
	failed    failures
}

// submitToMany succeeds when so many orderers have said SUCCESS, or their histories have it earlier.
func submitToMany(ctx context.Context, c *cluster, tx *commonpb.Envelope, need int) (*gatewaypb.SubmitResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &polling{cluster: c, tx: tx, need: need, unasked: c.consenters(), waiting: map[int]bool{}}
	p.answers = make(chan told, len(p.unasked))
	decided, forget := c.attending.expect(tx)
	defer forget()
	for range need {
		p.ask(ctx)
	}
	late := time.NewTimer(slow)
	defer late.Stop()
	for len(p.waiting) > 0 {
		select {
		case a := <-p.answers:
			delete(p.waiting, a.index)
			done, err := p.count(ctx, a)
			if err != nil {
				return nil, err
			}
			if done {
				return c.ordered(bft.ByWord), nil
			}
		case proof := <-decided:
			if leader := c.find(c.attending.leader()); leader >= 0 {
				c.ranks.promote(leader)
			}
			return c.ordered(proof), nil
		case <-late.C:
			for index := range p.waiting {
				c.ranks.demote(index)
			}
			for range len(p.waiting) {
				p.ask(ctx)
			}
			late.Reset(slow)
		case <-ctx.Done():
			return nil, p.fail(codes.DeadlineExceeded, "submit timeout expired while broadcasting to ordering service")
		}
	}
	return nil, p.fail(codes.Unavailable, fmt.Sprintf("%d of %d orderers needed could successfully process transaction", len(p.successes), need))
}

// ordered counts a transaction that is.
func (c *cluster) ordered(proof bft.Proof) *gatewaypb.SubmitResponse {
	c.decided.WithLabelValues(c.bundle.ChannelID, proofs[proof]).Inc()
	return &gatewaypb.SubmitResponse{}
}

// ask asks the next orderer, if there is one.
func (p *polling) ask(ctx context.Context) {
	if len(p.unasked) == 0 {
		return
	}
	index := p.unasked[0]
	p.unasked = p.unasked[1:]
	p.waiting[index] = true
	go func() {
		response, err := p.cluster.orderers[index].broadcast(ctx, p.tx)
		p.answers <- told{index, response, err}
	}()
}

// count takes an answer. Done says that enough have said SUCCESS; an error is the call's.
func (p *polling) count(ctx context.Context, a told) (done bool, err error) {
	if a.err != nil && expired(ctx) {
		return false, p.fail(codes.DeadlineExceeded, "submit timeout expired while broadcasting to ordering service")
	}
	o := p.cluster.orderers[a.index]
	if a.err == nil && a.response.GetStatus() == commonpb.Status_SUCCESS {
		p.successes = append(p.successes, a)
		if len(p.successes) == p.need {
			p.prefer()
		}
		return len(p.successes) == p.need, nil
	}
	var message string
	switch {
	case errors.Is(a.err, errBacklog):
		message = a.err.Error()
		p.exhausted++
	case a.err != nil:
		message = a.err.Error()
		p.cluster.ranks.demote(a.index)
	default:
		message = unsuccessful(a.response)
		switch {
		case protoutil.Exhausted(a.response.GetInfo()):
			p.exhausted++
		case a.response.GetStatus() >= 400 && a.response.GetStatus() < 500:
			p.refused++
		}
	}
	p.failed.add(o.node, message)
	switch {
	case p.exhausted >= p.need:
		return false, p.fail(codes.ResourceExhausted, message)
	case p.refused >= p.need:
		return false, p.fail(codes.Aborted, message)
	}
	p.ask(ctx)
	return false, nil
}

// fail ends the call. Its details name, after those that have failed, who may order the transaction all the same.
func (p *polling) fail(code codes.Code, message string) error {
	for _, a := range p.successes {
		p.failed.add(p.cluster.orderers[a.index].node, fmt.Sprintf("SUCCESS was said by too few orderers: %d are needed", p.need))
	}
	for _, index := range slices.Sorted(maps.Keys(p.waiting)) {
		p.failed.add(p.cluster.orderers[index].node, "no answer was waited for any longer")
	}
	return p.failed.fail(code, message)
}

// prefer has the leader asked first the next time, which spares the others from bringing it the transaction. It is the one
// that all name, or that names nobody: a correct orderer is among them.
func (p *polling) prefer() {
	leader := -1
	for _, a := range p.successes {
		named := p.cluster.find(a.response.GetInfo())
		if named < 0 {
			named = a.index
		}
		if leader >= 0 && named != leader {
			return
		}
		leader = named
	}
	p.cluster.ranks.promote(leader)
}
