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
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
)

// mends errs where it is not certain that blocks come again when the block file in a channel's folder is cut off at a damage.
func mends(kind *consensus.Kind, dir string, lost blockfile.Lost) error {
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
		_, raw, err := protoutil.OrdererMetadata(seal.Metadata)
		if err != nil {
			return fmt.Errorf("block %d: %w", seal.Header.Number, err)
		}
		applied, _, err := kind.Log.Parse(raw, channelconfig.Membership{})
		if err != nil {
			return fmt.Errorf("block %d: %w", seal.Header.Number, err)
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
	parts, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, part := range parts {
		name := part.Name()
		if name != kind.Folder && !strings.HasPrefix(name, kind.Folder+"-") {
			continue
		}
		first, end, err := kind.Kept(filepath.Join(dir, name))
		if err != nil {
			return 0, 0, err
		}
		if hasLeft(filepath.Join(dir, name)) {
			end = math.MaxUint64
		}
		if first > block || first == block && end > last {
			block, last = first, end
		}
	}
	if block == 0 {
		return 0, 0, errors.New("this orderer has no log of the channel")
	}
	return block, last, nil
}
