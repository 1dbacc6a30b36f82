package sequencer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// slow is a sequencer that says where its log ends after a while, or that it cannot.
type slow struct {
	sequencerpb.SequencerClient
	takes time.Duration
	fails error
}

func (s *slow) Last(ctx context.Context, _ *sequencerpb.LastRequest, _ ...grpc.CallOption) (*sequencerpb.LastResponse, error) {
	select {
	case <-time.After(s.takes):
		return &sequencerpb.LastResponse{Number: 7}, s.fails
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestASilentSequencerIsToldOfOnce, however often its connection breaks meanwhile, and again when it answers.
func TestASilentSequencerIsToldOfOnce(t *testing.T) {
	n := facade(t, &ledger{})
	var lines []string
	n.tell = func(level ops.Level, format string, args ...any) {
		lines = append(lines, level.String()+" "+fmt.Sprintf(format, args...))
	}
	asked := func(s *slow) (told []string) {
		before := len(lines)
		n.sequencer = s
		_, err := n.last(context.Background())
		assert.ErrorIs(t, err, s.fails)
		return lines[before:]
	}
	silent := []string{"warn [channel: ch] the sequencer passthrough:///nowhere has not answered for 5s"}
	answers := []string{"info [channel: ch] The sequencer passthrough:///nowhere answers again"}
	broken := errors.New("its connection is broken")
	synctest.Test(t, func(t *testing.T) {
		assert.Empty(t, asked(&slow{takes: silentAfter - 1}))
		assert.Empty(t, asked(&slow{takes: silentAfter - 1, fails: broken}), "whoever calls says that")
		for range 2 {
			assert.Equal(t, silent, asked(&slow{takes: time.Hour, fails: broken}))
			assert.Empty(t, asked(&slow{takes: time.Hour, fails: broken}))
			assert.Empty(t, asked(&slow{takes: 1, fails: broken}))
			assert.Equal(t, answers, asked(&slow{takes: 1}))
			assert.Empty(t, asked(&slow{takes: 1}))
		}
		assert.Equal(t, append(silent, answers...), asked(&slow{takes: time.Hour}))
	})
}

// TestASilentSequencerIsToldOfWhileItIsSilent, and keeps no facade from ending.
func TestASilentSequencerIsToldOfWhileItIsSilent(t *testing.T) {
	n := facade(t, &ledger{})
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 2)
		n.tell = func(_ ops.Level, format string, args ...any) { told <- fmt.Sprintf(format, args...) }
		n.sequencer = &slow{takes: 1000 * time.Hour}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- n.session(ctx) }()
		assert.Contains(t, <-told, "has not answered")
		assert.Empty(t, ended)
		cancel()
		assert.EqualError(t, <-ended, context.Canceled.Error())
	})
}
