package syscc

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// channelQuery is cscc: the function and, for most, the channel.
func (s *System) channelQuery(q Query) (proto.Message, error) {
	alone := []string{"GetChannels", "JoinBySnapshotStatus"}
	if len(q.Args) < 1 || len(q.Args) < 2 && !slices.Contains(alone, string(q.Args[0])) {
		return nil, fabrics("Incorrect number of arguments, %d", len(q.Args))
	}
	switch function := string(q.Args[0]); function {
	case "GetChannels":
		return s.joined(&q)
	case "GetConfigBlock":
		ch, err := s.readable(&q)
		if err != nil {
			return nil, err
		}
		return configBlock(ch)
	case "GetChannelConfig":
		ch, err := s.readable(&q)
		if err != nil {
			return nil, err
		}
		return ch.Bundle().Config, nil
	case "JoinChain", "JoinChainBySnapshot", "JoinBySnapshotStatus":
		return nil, fmt.Errorf("%s: a peer's channels stand in its configuration file; it joins when it is started with them", function)
	default:
		return nil, fabrics("Requested function %s not found.", function)
	}
}

// joined lists the peer's channels to members of its own organisation.
func (s *System) joined(q *Query) (*peerpb.ChannelQueryResponse, error) {
	local := s.Local()
	if local == nil {
		return &peerpb.ChannelQueryResponse{}, nil
	}
	id, err := local.MSP.Deserialize(q.Creator)
	if err == nil && id.MSPID != s.mspID {
		err = fmt.Errorf("%s is not the organisation of this peer", id.MSPID)
	}
	if err != nil {
		return nil, fmt.Errorf("access denied for [GetChannels]: %w", err)
	}
	out := &peerpb.ChannelQueryResponse{}
	for _, id := range slices.Sorted(maps.Keys(s.channels)) {
		out.Channels = append(out.Channels, &peerpb.ChannelInfo{ChannelId: id})
	}
	return out, nil
}

// readable is the channel that a query names, if its creator may read it.
func (s *System) readable(q *Query) (Channel, error) {
	function, id := q.Args[0], string(q.Args[1])
	ch := s.channels[id]
	if ch == nil {
		return nil, fabrics("Unknown channel ID, %s", id)
	}
	if err := q.admits(ch, readers); err != nil {
		return nil, fmt.Errorf("access denied for [%s][%s]: %w", function, id, err)
	}
	return ch, nil
}

// configBlock is the newest block's configuration: that block names it.
func configBlock(ch Channel) (*commonpb.Block, error) {
	newest, err := ch.Block(ch.Height() - 1)
	if err != nil || newest.Header.Number == 0 {
		return newest, err
	}
	number, _, err := protoutil.OrdererMetadata(newest.Metadata)
	if err != nil {
		return nil, err
	}
	return ch.Block(number)
}
