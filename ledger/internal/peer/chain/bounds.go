package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/cutter"
)

// errUnsealed says that a block has grown beyond where every orderer must have sealed it.
var errUnsealed = errors.New("the block should have been sealed before")

// bounds follow the orderers' rule of cutting along the open block. A seal may come earlier, since time ends blocks too,
// but not later: whoever sends more without one withholds it.
type bounds struct {
	rule cutter.Cutter
	full bool // the seal comes next
}

func newBounds(bundle *channelconfig.Bundle) bounds {
	return bounds{rule: *cutter.For(&bundle.Orderer)}
}

// add gives the bounds after the open block's next transaction; ok is whether there can be one.
func (b bounds) add(size int, config bool) (next bounds, ok bool) {
	before, after := b.rule.Add(size, config)
	ok = !b.full && !before
	b.full = !ok || after
	return b, ok
}

// unsealed takes the open block back: its orderer does not seal it. It returns when that is done.
func (p *pipeline) unsealed(ctx context.Context) error {
	return p.distrust(ctx, fmt.Errorf("%w: it is of more than %d transactions", errUnsealed, p.position.Tx))
}

// distrust takes the open block back, unless it is vouched for. It returns when that is done.
func (p *pipeline) distrust(ctx context.Context, why error) error {
	if p.rejoin() {
		return ErrRewound
	}
	gone := p.known.gone
	if err := p.put(ctx, &job{distrust: why}); err != nil {
		return err
	}
	select {
	case <-gone:
		return ErrRewound
	case <-ctx.Done():
		return ctx.Err()
	case <-p.chain.stopped:
		return ErrStopped
	}
}
