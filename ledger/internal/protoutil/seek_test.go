package protoutil

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

func TestSeekRange(t *testing.T) {
	oldest := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Oldest{}}
	newest := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Newest{}}
	next := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_NextCommit{}}
	block := func(n uint64) *ordererpb.SeekPosition {
		return &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: n}}}
	}
	for _, c := range []struct {
		name        string
		start, stop *ordererpb.SeekPosition
		first, last uint64
	}{
		{"all there is", oldest, newest, 0, 9},
		{"the newest alone", newest, newest, 9, 9},
		{"the oldest alone", oldest, oldest, 0, 0},
		{"from the next on", next, nil, 10, math.MaxUint64},
		{"from the next to the newest, which it then is", next, newest, 10, 10},
		{"some", block(3), block(5), 3, 5},
		{"one that is still to come", block(20), block(20), 20, 20},
	} {
		first, last, err := SeekRange(&ordererpb.SeekInfo{Start: c.start, Stop: c.stop}, 10)
		assert.NoError(t, err, c.name)
		assert.Equal(t, [2]uint64{c.first, c.last}, [2]uint64{first, last}, c.name)
	}
	for name, c := range map[string][2]*ordererpb.SeekPosition{
		"no start":           {nil, newest},
		"an empty start":     {{}, newest},
		"stop before start":  {block(5), block(3)},
		"stop at the next":   {oldest, next},
		"stop at the oldest": {block(5), block(0)},
	} {
		_, _, err := SeekRange(&ordererpb.SeekInfo{Start: c[0], Stop: c[1]}, 10)
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
}
