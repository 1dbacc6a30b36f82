package sequencer

import (
	"context"
	"errors"
	"time"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// silentAfter is how long a sequencer may take to say where its log ends before that is told. It takes no longer than a
// message does: it has the number in memory.
const silentAfter = 5 * time.Second

// last asks where the log ends. A sequencer whose connection stands may answer nothing, of which no error tells: that is
// told once, also where its connection breaks meanwhile and is made again, and once more when it answers.
func (n *Node) last(ctx context.Context) (*sequencerpb.LastResponse, error) {
	told := make(chan struct{})
	late := time.AfterFunc(silentAfter, func() {
		defer close(told)
		if !n.silent {
			n.silent = true
			n.tell(ops.Warn, "[channel: %s] the sequencer %s has not answered for %s", n.channel, n.conn.Target(), silentAfter)
		}
	})
	last, err := n.sequencer.Last(ctx, &sequencerpb.LastRequest{Channel: n.channel})
	if !late.Stop() {
		<-told
	}
	if err == nil && n.silent {
		n.silent = false
		n.tell(ops.Info, "[channel: %s] The sequencer %s answers again", n.channel, n.conn.Target())
	}
	return last, err
}

// away is an error of the way to the sequencer. Every other one ends the node.
type away struct{ error }

func fatal(err error) bool {
	var a away
	return !errors.As(err, &a)
}
