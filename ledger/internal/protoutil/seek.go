package protoutil

import (
	"fmt"
	"math"

	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// SeekRange gives the first and the last block that a request names, on a ledger
// of that height; a request without a stop has no end. A start beyond the ledger
// is a block to wait for. The error is ErrMalformed.
func SeekRange(seek *ordererpb.SeekInfo, height uint64) (first, last uint64, err error) {
	switch at := seek.GetStart().GetType().(type) {
	case *ordererpb.SeekPosition_Oldest:
		first = 0
	case *ordererpb.SeekPosition_Newest:
		first = height - 1
	case *ordererpb.SeekPosition_NextCommit:
		first = height
	case *ordererpb.SeekPosition_Specified:
		first = at.Specified.GetNumber()
	default:
		return 0, 0, fmt.Errorf("%w: a seek needs a start", ErrMalformed)
	}
	last = math.MaxUint64
	switch at := seek.GetStop().GetType().(type) {
	case *ordererpb.SeekPosition_Oldest:
		last = first
	case *ordererpb.SeekPosition_Newest:
		last = max(height-1, first)
	case *ordererpb.SeekPosition_Specified:
		last = at.Specified.GetNumber()
	case *ordererpb.SeekPosition_NextCommit:
		return 0, 0, fmt.Errorf("%w: a seek cannot stop at the next commit", ErrMalformed)
	}
	if last < first {
		return 0, 0, fmt.Errorf("%w: stop %d lies before start %d", ErrMalformed, last, first)
	}
	return first, last, nil
}
