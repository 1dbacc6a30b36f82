package syscc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var ledgerFunctions = []string{"GetChainInfo", "GetBlockByNumber", "GetBlockByHash", "GetBlockByTxID", "GetTransactionByID"}

// ledgerQuery is qscc: the function, the channel, and what is looked for.
func (s *System) ledgerQuery(ctx context.Context, q Query) (proto.Message, error) {
	if len(q.Args) < 2 {
		return nil, fabrics("Incorrect number of arguments, %d", len(q.Args))
	}
	function, id := string(q.Args[0]), string(q.Args[1])
	if function != "GetChainInfo" && len(q.Args) < 3 {
		return nil, fmt.Errorf("missing 3rd argument for %s", function)
	}
	ch := s.channels[id]
	if ch == nil {
		return nil, fabrics("Invalid chain ID, %s", id)
	}
	err := q.admits(ch, readers)
	if !slices.Contains(ledgerFunctions, function) {
		err = fabrics("Unmapped policy for qscc/%s", function)
	}
	if err != nil {
		return nil, fmt.Errorf("access denied for [%s][%s]: [%w]", function, id, err)
	}
	if function == "GetChainInfo" {
		return chainInfo(ch)
	}
	return find(ctx, ch, function, q.Args[2])
}

// find reads one block or transaction.
func find(ctx context.Context, ch Channel, function string, what []byte) (proto.Message, error) {
	switch function {
	case "GetBlockByNumber":
		number, err := strconv.ParseUint(string(what), 10, 64)
		if err != nil {
			return nil, fabrics("Failed to parse block number with error %w", err)
		}
		block, err := byNumber(ch, number)
		return block, said(err, "Failed to get block number %d", number)
	case "GetBlockByHash":
		block, err := byHash(ch, what)
		return block, said(err, "Failed to get block hash %x", what)
	case "GetBlockByTxID":
		block, _, err := byTransaction(ctx, ch, string(what))
		return block, said(err, "Failed to get block for txID %s", what)
	default: // GetTransactionByID
		tx, err := transaction(ctx, ch, string(what))
		return tx, said(err, "Failed to get transaction with id %s", what)
	}
}

// said adds Fabric's words to an error.
func said(err error, format string, what any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+", error %w", what, err)
}

func chainInfo(ch Channel) (*commonpb.BlockchainInfo, error) {
	height := ch.Height()
	newest, err := ch.Block(height - 1) // there is always the first one
	if err != nil {
		return nil, fabrics("Failed to get block info with error %w", err)
	}
	return &commonpb.BlockchainInfo{
		Height: height, CurrentBlockHash: protoutil.BlockHeaderHash(newest.Header), PreviousBlockHash: newest.Header.PreviousHash,
	}, nil
}

// byNumber reads a block; the greatest number of all means the newest one.
func byNumber(ch Channel, number uint64) (*commonpb.Block, error) {
	if number == math.MaxUint64 {
		number = ch.Height() - 1
	}
	block, err := ch.Block(number)
	if errors.Is(err, chain.ErrNotFound) {
		return nil, fmt.Errorf("no such block number [%d] in index", number)
	}
	return block, err
}

func byHash(ch Channel, hash []byte) (*commonpb.Block, error) {
	block, err := ch.BlockByHash(hash)
	if errors.Is(err, chain.ErrNotFound) {
		return nil, fmt.Errorf("no such block hash [%x] in index", hash)
	}
	return block, err
}

// byTransaction gives the block that a transaction was committed in, and its place there. A block
// comes into being with its seal, so it is waited for where the transaction is committed already. An
// open block may be taken back, so only a place that was found after the seal counts.
func byTransaction(ctx context.Context, ch Channel, txID string) (*commonpb.Block, chain.Status, error) {
	for {
		changed, height := ch.UntilChanged(), ch.Height()
		at, err := ch.Find(txID)
		if errors.Is(err, chain.ErrNotFound) {
			return nil, at, fmt.Errorf("no such transaction ID [%s] in index", txID)
		}
		if err != nil {
			return nil, at, err
		}
		if at.Position.Block < height {
			block, err := ch.Block(at.Position.Block)
			return block, at, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, at, ctx.Err()
		case <-ch.Stopped():
			return nil, at, chain.ErrStopped
		}
	}
}

func transaction(ctx context.Context, ch Channel, txID string) (*peerpb.ProcessedTransaction, error) {
	block, at, err := byTransaction(ctx, ch, txID)
	if err != nil {
		return nil, err
	}
	data := block.GetData().GetData()
	if at.Position.Tx >= uint64(len(data)) {
		return nil, fmt.Errorf("block %d has no transaction %d", at.Position.Block, at.Position.Tx)
	}
	envelope := &commonpb.Envelope{}
	if err := protoutil.Unmarshal(data[at.Position.Tx], envelope); err != nil {
		return nil, err
	}
	return &peerpb.ProcessedTransaction{TransactionEnvelope: envelope, ValidationCode: int32(at.Code)}, nil
}
