package protoutil

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/internal/protoview"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// SplitEnvelope gives the payload and the signature of an envelope that is of the only form which may be ordered: both
// are there, each once, in this order, and nothing else. The data hash of a block is that of its envelopes one after
// the other, so it does not say where one ends: only where all are of this form do the same bytes give the same
// transactions. (A reader of protobuf takes the last one of a field that is there twice, so of two envelopes that are
// handed on as one it sees the second: CVE-2023-46132 of Fabric, whose rule this is.) Errors wrap ErrMalformed.
func SplitEnvelope(raw []byte) (payload, signature []byte, err error) {
	payload, rest, ok := chunk(raw, 1)
	if !ok {
		return nil, nil, fmt.Errorf("%w: the envelope is not well-formed: it does not begin with a payload", ErrMalformed)
	}
	signature, rest, ok = chunk(rest, 2)
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("%w: the envelope is not well-formed: no signature follows the payload", ErrMalformed)
	case len(rest) > 0:
		return nil, nil, fmt.Errorf("%w: the envelope is not well-formed: %d bytes follow the signature", ErrMalformed, len(rest))
	}
	return payload, signature, nil
}

// chunk takes a field of bytes, which has some, off the front of a message.
func chunk(raw []byte, field int) (value, rest []byte, ok bool) {
	if len(raw) == 0 || raw[0] != byte(protoview.Chunk(field)) {
		return nil, nil, false
	}
	size, n := protowire.ConsumeVarint(raw[1:])
	if n < 0 || size == 0 || n != protowire.SizeVarint(size) || size > uint64(len(raw)-1-n) {
		return nil, nil, false
	}
	rest = raw[1+n:]
	return rest[:size:size], rest[size:], true
}

// CheckBlock says why the transactions of a block that came from elsewhere are not those that its header names. Block 0,
// which every node is given by its operator and nobody has signed, holds an envelope without signature.
func CheckBlock(block *commonpb.Block) error {
	number, txs := block.GetHeader().GetNumber(), block.GetData().GetData()
	if len(txs) == 0 {
		return fmt.Errorf("block %d: %w: it is empty", number, ErrMalformed)
	}
	for i, raw := range txs {
		if number == 0 {
			break
		}
		if _, _, err := SplitEnvelope(raw); err != nil {
			return fmt.Errorf("block %d: transaction %d: %w", number, i, err)
		}
	}
	if !bytes.Equal(block.GetHeader().GetDataHash(), DataHash(txs)) {
		return fmt.Errorf("block %d: wrong data hash", number)
	}
	return nil
}
