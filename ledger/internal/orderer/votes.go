package orderer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
)

// founders are a channel's first consenters.
type founders struct {
	count int
	id    uint64 // this orderer's among them, from 1 on; 0: its certificate and address are those of none of them
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

// othersMend is for orderers whose blocks a quorum signs: the others have them, as has the log that they agree on. An orderer
// without its votes could cast them again, otherwise. One that has only followed has none: it is no founder, and the seals
// say that there has been no other configuration, or a mark says that it has followed since it had no block. Where neither
// does, this may be a consenter whose votes are lost.
func othersMend(kind *consensus.Kind, dir string, first founders, lost blockfile.Lost) error {
	seals, err := sealsOf(kind, first, lost)
	if err != nil {
		return err
	}
	own, err := votersIn(kind, dir, first)
	if err != nil {
		return err
	}
	if own.alone(seals.newest) {
		return errors.New("no other orderer has the channel's blocks")
	}
	if len(own.folders) == 0 && first.id == 0 && (seals.founding || hasOnlyFollowed(dir)) {
		return nil
	}
	return own.vote(seals)
}

// followerFile in a channel's folder says that the orderer has followed since its first block, and had neither votes nor a log.
const followerFile = "follower"

// markFollower is for a folder that has the channel's first block alone.
func markFollower(dir string) error {
	return durable.Replace(dir, followerFile, nil, func(*durable.Writer) error { return nil })
}

func hasOnlyFollowed(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, followerFile))
	return err == nil
}

// unmarkFollower is durable before there can be a vote: a folder of votes, or a log, may get lost later, and the mark must not
// excuse it.
func unmarkFollower(dir string) error {
	if err := os.Remove(filepath.Join(dir, followerFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return durable.SyncDir(dir) // it may have been removed before a crash
}

var errNoVotes = errors.New("this orderer has no votes of the channel")

// sealed is what the seals that are left say of who orders.
type sealed struct {
	named    []uint64 // ids that any seal names
	newest   []uint64 // those that the newest one names
	begun    []uint64 // those of newest that began with it, and after which there is nothing
	founding bool     // there has been no configuration after the first
}

func sealsOf(kind *consensus.Kind, first founders, lost blockfile.Lost) (*sealed, error) {
	s := &sealed{newest: firstIDs(first.count), founding: len(lost.Seals) > 0}
	if len(lost.Seals) == 0 || lost.Seals[0].Header.Number == 0 {
		s.named = slices.Clone(s.newest)
	}
	next := uint64(1) // after the seal before
	for _, seal := range lost.Seals {
		number := seal.Header.Number
		if number == 0 {
			continue
		}
		_, members, err := placeOf(kind, seal)
		if err != nil {
			return nil, err
		}
		config, _, err := protoutil.OrdererMetadata(seal.Metadata)
		if err != nil {
			return nil, err
		}
		s.founding = s.founding && config == 0 && (len(members.IDs) == 0 || members.Next == uint64(first.count)+1)
		s.begun = nil
		if ids := members.IDs; len(ids) > 0 {
			if number == next {
				s.begun = slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return slices.Contains(s.newest, id) })
			}
			s.newest, s.named = ids, append(s.named, ids...)
		}
		next = number + 1
	}
	if len(s.named) == 0 {
		s.named = slices.Clone(s.newest)
	}
	if lost.Unknown > 0 || len(lost.Txs) > 0 {
		s.begun = nil
	}
	return s, nil
}

// firstIDs are those of a channel's first consenters.
func firstIDs(count int) (ids []uint64) {
	for id := range uint64(count) {
		ids = append(ids, id+1)
	}
	return ids
}

// voters are an orderer's memberships, as its folders tell.
type voters struct {
	ids     []uint64
	founder bool   // it has been one of the first consenters, and which is not known
	count   uint64 // of the first consenters
	folders map[string]votes
}

// votes is what a membership's folder has. One that has left casts none.
type votes struct{ there, left bool }

func votersIn(kind *consensus.Kind, dir string, first founders) (*voters, error) {
	v := &voters{count: uint64(first.count), folders: map[string]votes{}}
	if first.id != 0 {
		v.ids = append(v.ids, first.id)
	}
	parts, err := partsIn(kind, dir)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		there, err := kind.Votes(part)
		if err != nil {
			return nil, err
		}
		_, text, later := strings.Cut(filepath.Base(part), kind.Folder+"-")
		if later {
			number, _ := strconv.ParseUint(text, 10, 64)
			v.ids = append(v.ids, number)
		} else {
			v.founder = first.id == 0
		}
		v.folders[text] = votes{there, hasLeft(part)}
	}
	return v, nil
}

// alone reports whether there is no other consenter among some.
func (v *voters) alone(consenters []uint64) bool {
	other := func(id uint64) bool { return !slices.Contains(v.ids, id) }
	return !slices.ContainsFunc(consenters, other) || v.founder && len(consenters) < 2
}

// of are the votes of one of this orderer's ids.
func (v *voters) of(id uint64) votes {
	if id <= v.count {
		return v.folders[""]
	}
	return v.folders[strconv.FormatUint(id, 10)]
}

// vote errs where it is not certain that this orderer has the votes of each id under which it may vote again. A crash may
// leave the folder of a membership that has just begun empty.
func (v *voters) vote(seals *sealed) error {
	some, consents, newestOwn := false, false, uint64(0)
	for _, of := range v.folders {
		some = some || of.there
	}
	if founders := v.folders[""]; !some || v.founder && !founders.there && !founders.left {
		return errNoVotes
	}
	for _, id := range v.ids {
		of := v.of(id)
		if slices.Contains(seals.named, id) && !of.there && !of.left && !slices.Contains(seals.begun, id) {
			return fmt.Errorf("%w as its consenter %d", errNoVotes, id)
		}
		consents, newestOwn = consents || slices.Contains(seals.newest, id), max(newestOwn, id)
	}
	if last := slices.Max(seals.newest); !consents && last > max(newestOwn, v.count) {
		return fmt.Errorf("%w as its consenter %d, which it may be", errNoVotes, last)
	}
	return nil
}
