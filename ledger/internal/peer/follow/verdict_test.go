package follow

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// TestWhatTheEndOfAStreamSays of its orderer.
func TestWhatTheEndOfAStreamSays(t *testing.T) {
	lie := fmt.Errorf("%w: no header", chain.ErrDishonest)
	missing := status.Error(codes.NotFound, "no such place")
	withheld := errWithheld{block: 7, witness: "b"}
	between, within := at(3, 0), at(3, 2)
	for name, test := range map[string]struct {
		err    error
		next   chain.Position
		needed int
		want   verdict
	}{
		"the chain has stopped":                {fmt.Errorf("add: %w", chain.ErrStopped), within, 2, verdict{stopped: true}},
		"another one leads":                    {errElsewhere{2}, within, 2, verdict{elsewhere: true, leader: 2}},
		"it cannot be reached":                 {status.Error(codes.Unavailable, "refused"), within, 2, verdict{}},
		"a lie between blocks":                 {lie, between, 2, verdict{lies: true}},
		"a lie within a block":                 {lie, within, 2, verdict{lies: true, takeBack: true, avoid: true}},
		"a lie within a block, block mode":     {lie, within, 0, verdict{lies: true, takeBack: true, avoid: true}},
		"a lie where one orderer's word does":  {lie, within, 1, verdict{lies: true}},
		"no such place":                        {missing, within, 2, verdict{takeBack: true, avoid: true}},
		"no such place between blocks":         {missing, between, 2, verdict{}},
		"no such place, one orderer's word":    {missing, within, 1, verdict{}},
		"it was taken back":                    {chain.ErrRewound, between, 2, verdict{avoid: true}},
		"it withholds":                         {fmt.Errorf("stream: %w", withheld), within, 2, verdict{withholds: true, withheld: withheld}},
		"it sends what is neither of the two":  {errors.New("neither a transaction nor a seal"), within, 2, verdict{}},
		"it ends, and says nothing about that": {nil, within, 2, verdict{}},
	} {
		assert.Equal(t, test.want, judge(test.err, test.next, test.needed), name)
	}
}

// TestPausesComeAfterEachOrdererHasFailed, and grow until one of them brings something.
func TestPausesComeAfterEachOrdererHasFailed(t *testing.T) {
	f := newFailures()
	var pauses []time.Duration
	for range 16 {
		pauses = append(pauses, f.pause(false, 2)/firstPause)
	}
	assert.Equal(t, []time.Duration{0, 1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 32, 0, 40, 0, 40}, pauses)
	assert.Zero(t, f.pause(true, 2))
	assert.Equal(t, firstPause, f.pause(false, 2))
	assert.Equal(t, firstPause, newFailures().pause(true, 1))
}
