package orderer

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// mends errs where it is not certain that blocks come again when the block file in a channel's folder is cut off at a damage.
// The chain compares what comes with what it has had, so a log that others keep need not be asked before.
func mends(kind *consensus.Kind, dir string, first founders, lost blockfile.Lost) error {
	switch {
	case lost.Block == 0:
		return errors.New("the channel's first block is of no log")
	case kind.Log.External:
		return nil
	case kind.Votes != nil:
		return othersMend(kind, dir, first, lost)
	}
	// One that has only followed fetched its blocks, and has answered for none. Without the mark its log may be lost.
	parts, err := partsIn(kind, dir)
	follower := len(parts) == 0 && first.count > 0 && first.id == 0 // or one whose log is lost
	switch {
	case err != nil || follower && hasOnlyFollowed(dir):
		return err
	case follower:
		return fmt.Errorf("%w; if it never was a consenter, delete %s: it fetches the chain again", errNoLog, filepath.Join(dir, "blocks"))
	}
	return ownLogMends(kind, dir, lost)
}

var errNoLog = errors.New("this orderer has no log of the channel")

// placeOf is where a block ends in the log, and who orders after it.
func placeOf(kind *consensus.Kind, seal *commonpb.Block) (chain.Applied, channelconfig.Membership, error) {
	_, raw, err := protoutil.OrdererMetadata(seal.Metadata)
	var at chain.Applied
	var members channelconfig.Membership
	if err == nil {
		at, members, err = kind.Log.Parse(raw, channelconfig.Membership{})
	}
	if err != nil {
		return at, members, fmt.Errorf("block %d: %w", seal.Header.Number, err)
	}
	return at, members, nil
}

// ownLogMends is for orderers that keep a log of their own.
func ownLogMends(kind *consensus.Kind, dir string, lost blockfile.Lost) error {
	block, last, err := kept(kind, dir)
	if err != nil {
		return err
	}
	if lost.Block < block {
		return fmt.Errorf("the log has all from block %d on", block)
	}
	for _, seal := range lost.Seals {
		if seal.Header.Number == 0 {
			continue // it is in no log
		}
		applied, _, err := placeOf(kind, seal)
		if err != nil {
			return err
		}
		if applied.Index > last {
			return fmt.Errorf("block %d ends with entry %d of the log, which ends with entry %d", seal.Header.Number, applied.Index, last)
		}
	}
	return nil
}

// kept is the first block that this orderer's own logs in a channel's folder bring again, and the last entry that they have.
// What is to be cut off is in the log of the newest membership, whose snapshot stands for the most blocks. Where that
// membership has ended, what is not in the log came from other orderers, whom this one follows and asks again.
func kept(kind *consensus.Kind, dir string) (block, last uint64, err error) {
	if kind.Kept == nil {
		return 0, 0, errors.New("its orderers have no log that blocks can be made of again")
	}
	parts, err := partsIn(kind, dir)
	if err != nil {
		return 0, 0, err
	}
	for _, part := range parts {
		first, end, err := kind.Kept(part)
		if err != nil {
			return 0, 0, err
		}
		if hasLeft(part) {
			end = math.MaxUint64
		}
		if first > block || first == block && end > last {
			block, last = first, end
		}
	}
	if block == 0 {
		return 0, 0, errNoLog
	}
	return block, last, nil
}

// partsIn are the folders of this orderer's memberships in a channel's.
func partsIn(kind *consensus.Kind, dir string) (parts []string, err error) {
	all, err := os.ReadDir(dir)
	for _, one := range all {
		if name := one.Name(); name == kind.Folder || strings.HasPrefix(name, kind.Folder+"-") {
			parts = append(parts, filepath.Join(dir, name))
		}
	}
	return parts, err
}
