package orderer

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// Attend connects a client of the orderers' protocol, where there is such a part. Who may read the channel may attend.
func (n *Node) Attend(stream streampb.Stream_AttendServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.Request == nil {
		return status.Error(codes.InvalidArgument, "the first message has no request")
	}
	ch, msg, err := n.openRequest(stream.Context(), first.Request)
	if err != nil {
		return followError(err)
	}
	taken := ch.taking.Load()
	if taken == nil {
		return followError(errNotConsenter)
	}
	var attendance *consensus.Attendance
	if attended, is := taken.Consenter.(consensus.Attended); is {
		attendance = attended.Attend()
	}
	if attendance == nil {
		return status.Error(codes.FailedPrecondition, "the orderers find out themselves what is decided")
	}
	defer attendance.Leave()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() { cancel(hearAll(stream, attendance)) }() // it ends with the stream
	go func() {
		select {
		case <-taken.removed: // the client may have been told all that it ever will
			cancel(followError(errNotConsenter))
		case <-ctx.Done():
		}
	}()
	for {
		said, err := ch.nextSaid(ctx, attendance)
		if err != nil {
			return err
		}
		if err := ch.admits(msg); err != nil {
			return followError(err)
		}
		if err := stream.Send(said); err != nil {
			return err
		}
	}
}

// hearAll takes what the client says, until it goes or says what it must not.
func hearAll(stream streampb.Stream_AttendServer, attendance *consensus.Attendance) error {
	for {
		said, err := stream.Recv()
		if err != nil {
			return err
		}
		if n := len(said.Messages); n > protoutil.MostSaid {
			return status.Errorf(codes.InvalidArgument, "%d messages at once: up to %d are accepted", n, protoutil.MostSaid)
		}
		for _, m := range said.Messages {
			if err := attendance.Hear(m); err != nil {
				return err
			}
		}
	}
}

// nextSaid gathers what waits for a client.
func (ch *channel) nextSaid(ctx context.Context, attendance *consensus.Attendance) (*streampb.Said, error) {
	said := &streampb.Said{}
	for len(said.Messages) < protoutil.MostSaid {
		var told consensus.Told
		var open bool
		if said.Group == nil && len(said.Messages) == 0 {
			select {
			case told, open = <-attendance.Told:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		} else {
			select {
			case told, open = <-attendance.Told:
			default:
				return said, nil
			}
		}
		switch {
		case !open:
			return nil, status.Error(codes.ResourceExhausted, "the client reads too slowly")
		case told.Members != nil:
			said.Group = ch.orderingGroup(told)
		default:
			said.Messages = append(said.Messages, told.Message)
		}
	}
	return said, nil
}

// orderingGroup names the members of an epoch.
func (ch *channel) orderingGroup(told consensus.Told) *streampb.OrderingGroup {
	g := &streampb.OrderingGroup{Epoch: told.Epoch}
	for _, id := range told.Members {
		g.Members = append(g.Members, &streampb.OrderingMember{Id: id, Address: ch.group.Load().members[id].address})
	}
	return g
}
