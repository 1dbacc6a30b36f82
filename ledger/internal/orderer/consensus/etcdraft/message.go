package etcdraft

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
	"github.com/qioi/qioi/ledger/internal/protoview"
)

// check errs where no member sends a message. The Raft core does not ask: it would end the process.
func check(m *raftpb.Message) error {
	switch m.GetType() {
	case raftpb.MsgApp:
		if err := follow(m); err != nil {
			return err
		}
	case raftpb.MsgSnap:
		if _, err := raftlog.Height(m.GetSnapshot()); err != nil {
			return err
		}
		if conf := m.GetSnapshot().GetMetadata().GetConfState(); !votersAlone(conf) {
			return fmt.Errorf("a snapshot of a group other than of different voters alone: %v", conf)
		}
	case raftpb.MsgHeartbeatResp:
		if len(m.GetContext()) > 0 {
			return errors.New("the answer to a read, which was not asked for")
		}
	case raftpb.MsgAppResp, raftpb.MsgHeartbeat, raftpb.MsgTimeoutNow,
		raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp:
	default: // transactions come by Submit, and are checked
		return fmt.Errorf("%s from another orderer", m.GetType())
	}
	if m.GetTerm() == 0 {
		return fmt.Errorf("%s without a term", m.GetType())
	}
	return nil
}

// votersAlone reports whether a snapshot's group is as orderers make them: they add and remove one voter at a time. The Raft
// core ends the process for a group that contradicts itself.
func votersAlone(conf *raftpb.ConfState) bool {
	voters := slices.Sorted(slices.Values(conf.GetVoters()))
	return !slices.Contains(voters, raft.None) && len(slices.Compact(voters)) == len(conf.GetVoters()) && !conf.GetAutoLeave() &&
		len(conf.GetLearners())+len(conf.GetVotersOutgoing())+len(conf.GetLearnersNext()) == 0
}

// follow errs where the entries of a message that appends some do not follow each other and the place that they are to be
// appended at, or are of no term that the sender can have.
func follow(m *raftpb.Message) error {
	index, term := m.GetIndex(), m.GetLogTerm()
	for _, e := range m.GetEntries() {
		if e.GetIndex() != index+1 || e.GetTerm() < term || e.GetTerm() > m.GetTerm() {
			return fmt.Errorf("entry %d of term %d after entry %d of term %d, from a leader of term %d",
				e.GetIndex(), e.GetTerm(), index, term, m.GetTerm())
		}
		index, term = e.GetIndex(), e.GetTerm()
	}
	return nil
}

// parseMessage reads a Raft message, without copying its entries where it is one that appends them: they are part of
// raw from then on.
func parseMessage(raw []byte) (*raftpb.Message, error) {
	m := &raftpb.Message{}
	if appended(raw, m) {
		return m, nil
	}
	m.Reset()
	return m, proto.Unmarshal(raw, m)
}

// appended reads a message that appends entries; every other one is left to the library.
func appended(raw []byte, m *raftpb.Message) bool {
	return protoview.Fields(raw, func(tag protoview.Tag, bytes []byte, value uint64) bool {
		switch tag {
		case protoview.Number(1):
			kind := raftpb.MessageType(int32(value))
			m.Type = &kind
			return kind == raftpb.MsgApp
		case protoview.Number(2):
			m.To = &value
		case protoview.Number(3):
			m.From = &value
		case protoview.Number(4):
			m.Term = &value
		case protoview.Number(5):
			m.LogTerm = &value
		case protoview.Number(6):
			m.Index = &value
		case protoview.Chunk(7):
			e := &raftpb.Entry{}
			m.Entries = append(m.Entries, e)
			return parseEntry(bytes, e)
		case protoview.Number(8):
			m.Commit = &value
		default:
			return false
		}
		return true
	})
}

func parseEntry(raw []byte, e *raftpb.Entry) bool {
	return protoview.Fields(raw, func(tag protoview.Tag, bytes []byte, value uint64) bool {
		switch tag {
		case protoview.Number(1):
			kind := raftpb.EntryType(int32(value))
			e.Type = &kind
			return kind == raftpb.EntryNormal
		case protoview.Number(2):
			e.Term = &value
		case protoview.Number(3):
			e.Index = &value
		case protoview.Chunk(4):
			e.Data = bytes
		default:
			return false
		}
		return true
	})
}
