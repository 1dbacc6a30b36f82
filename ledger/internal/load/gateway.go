package load

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

// gateways are a ledger's peers, taken in turn.
type gateways struct {
	clients []*client
	reads   map[string]bool // functions that change nothing
	queries bool            // one peer answers them from its state; all others are ordered
}

func newGateways(endpoints []endpoint, channel string, pace *wire.Pacer, o *options) (*gateways, error) {
	g := &gateways{reads: readers[o.chaincode], queries: o.queries}
	for _, e := range endpoints {
		c, err := dial(e, channel, o.chaincode, pace)
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		g.clients = append(g.clients, c)
	}
	return g, nil
}

func (g *gateways) connect(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range g.clients {
		group.Go(func() error { return c.connect(ctx) })
	}
	return group.Wait()
}

// setup makes nothing: contracts are there when the network is.
func (g *gateways) setup(context.Context) error { return nil }

func (g *gateways) do(ctx context.Context, i int, c call) outcome {
	one := g.clients[i%len(g.clients)]
	if !g.reads[string(c[0])] {
		return one.transact(ctx, c)
	}
	if g.queries {
		return one.evaluate(ctx, c)
	}
	o := one.transact(ctx, c)
	o.lost, o.unknown = false, false // no write
	return o
}

func (g *gateways) close() error {
	var errs []error
	for _, c := range g.clients {
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(errs...)
}

// evaluate asks the peer's own state. Nothing is ordered, and the outcome has no id: no ledger will have it.
func (c *client) evaluate(ctx context.Context, args [][]byte) outcome {
	request, err := c.drafter.proposal(args, time.Now())
	if err != nil {
		return outcome{failedAt: stageEvaluate, code: "CLIENT", detail: err.Error()}
	}
	_, err = c.gateway.Evaluate(ctx, &gatewaypb.EvaluateRequest{
		TransactionId: request.GetTransactionId(), ChannelId: request.GetChannelId(), ProposedTransaction: request.GetProposedTransaction(),
	})
	if err != nil {
		return outcome{}.failed(stageEvaluate, err)
	}
	return outcome{}
}
