package orderer

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// founders are a channel's first consenters.
type founders struct {
	count int
	id    uint64 // this orderer's among them, from 1 on; 0: it is none of them
}

// foundersOf are the consenters of a channel's first configuration.
func (n *Node) foundersOf(o *channelconfig.Orderer) founders {
	first := founders{count: len(o.Consenters)}
	for i, consenter := range o.Consenters {
		m := memberOf(consenter, o.TLSRoots)
		named := n.certificate != nil && bytes.Equal(m.server, n.certificate.Certificate[0])
		if named || first.id == 0 && m.address == n.cfg.KnownAs() {
			first.id = uint64(i) + 1
		}
	}
	return first
}

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
	return ownLogMends(kind, dir, lost)
}

// othersMend is for orderers whose blocks a quorum signs: the others have them, as has the log that they agree on. An orderer
// without its votes could cast them again, otherwise. One that has only followed has none: it is no founder, and the seals
// say that nobody has become a consenter since. Where somebody has, this may be the one, and its votes are lost.
func othersMend(kind *consensus.Kind, dir string, first founders, lost blockfile.Lost) error {
	consenters, founding := firstIDs(first.count), len(lost.Seals) > 0
	for _, seal := range lost.Seals {
		if seal.Header.Number == 0 {
			continue
		}
		_, members, err := placeOf(kind, seal)
		if err != nil {
			return err
		}
		if len(members.IDs) > 0 {
			consenters = members.IDs
			founding = founding && members.Next == uint64(first.count)+1
		}
	}
	parts, err := partsIn(kind, dir)
	if err != nil {
		return err
	}
	own, votes := []uint64{first.id}, false
	for _, part := range parts {
		there, err := kind.Votes(part)
		if err != nil {
			return err
		}
		votes = votes || there // a crash may leave the folder of a membership that has just begun empty
		if id, later := strings.CutPrefix(filepath.Base(part), kind.Folder+"-"); later {
			number, _ := strconv.ParseUint(id, 10, 64)
			own = append(own, number)
		}
	}
	if !slices.ContainsFunc(consenters, func(id uint64) bool { return !slices.Contains(own, id) }) {
		return errors.New("no other orderer has the channel's blocks")
	}
	if !votes && (len(parts) > 0 || first.id != 0 || !founding) {
		return errors.New("this orderer has no votes of the channel")
	}
	return nil
}

// firstIDs are those of a channel's first consenters.
func firstIDs(count int) (ids []uint64) {
	for id := range uint64(count) {
		ids = append(ids, id+1)
	}
	return ids
}

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
		return 0, 0, errors.New("this orderer has no log of the channel")
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
