package shim

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// scriptedStream is a peer that sends a fixed list of messages and then hangs up.
type scriptedStream struct {
	grpc.BidiStreamingServer[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]
	ctx  context.Context
	left []*peerpb.ChaincodeMessage
	sent []*peerpb.ChaincodeMessage
}

func (s *scriptedStream) Context() context.Context { return s.ctx }
func (s *scriptedStream) Send(msg *peerpb.ChaincodeMessage) error {
	s.sent = append(s.sent, msg)
	return nil
}
func (s *scriptedStream) Recv() (*peerpb.ChaincodeMessage, error) {
	if len(s.left) == 0 {
		return nil, io.EOF
	}
	msg := s.left[0]
	s.left = s.left[1:]
	return msg, nil
}

// TestWhatIsTooLargeFailsItsTransactionAlone: it would end the stream, and with it all others of the chaincode.
func TestWhatIsTooLargeFailsItsTransactionAlone(t *testing.T) {
	large := make([]byte, maxMessageBytes)
	for name, function := range map[string]Function{
		"the last message": func(s *Stub, _ []string) ([]byte, error) { return nil, s.SetEvent("large", large) },
		"a question": func(s *Stub, _ []string) ([]byte, error) {
			_, err := s.ask(peerpb.ChaincodeMessage_PUT_STATE, &peerpb.PutState{Key: "k", Value: large})
			if err != nil {
				return nil, err
			}
			return nil, errors.New("it was sent")
		},
	} {
		stream := &scriptedStream{ctx: t.Context(), left: []*peerpb.ChaincodeMessage{
			{Type: peerpb.ChaincodeMessage_READY},
			{Type: peerpb.ChaincodeMessage_TRANSACTION, Txid: "t", ChannelId: "c", Payload: []byte("\x0a\x03get")},
		}}
		require.NoError(t, serve(stream, "id", Functions{"get": function}), name)
		require.Len(t, stream.sent, 2, name) // the first one registers
		last := stream.sent[1]
		assert.Less(t, proto.Size(last), 1<<10, name)
		assert.Contains(t, string(last.Payload), "too large for the peer's stream", name)
		assert.Equal(t, []string{"t", "c"}, []string{last.Txid, last.ChannelId})
	}
}

// TestAPeerSaysHowManyTransactionsRun: it lets so many run beside each other, most of them after their clients have left.
func TestAPeerSaysHowManyTransactionsRun(t *testing.T) {
	const many = 22_000
	stream := &scriptedStream{ctx: t.Context(), left: []*peerpb.ChaincodeMessage{{Type: peerpb.ChaincodeMessage_READY}}}
	for i := range many {
		stream.left = append(stream.left, &peerpb.ChaincodeMessage{
			Type: peerpb.ChaincodeMessage_TRANSACTION, Txid: strconv.Itoa(i), ChannelId: "c", Payload: []byte("\x0a\x03get"),
		})
	}
	require.NoError(t, serve(stream, "id", Functions{"get": func(s *Stub, _ []string) ([]byte, error) {
		<-s.session.ctx.Done() // all run until the peer hangs up
		return nil, nil
	}}))
	require.Len(t, stream.sent, 1+many) // the first one registers
	for _, msg := range stream.sent[1:] {
		require.Equal(t, peerpb.ChaincodeMessage_COMPLETED, msg.GetType(), string(msg.GetPayload()))
	}
}

// FuzzServe sends a chaincode what no peer would: it must neither panic nor hang.
func FuzzServe(f *testing.F) {
	for kind := range peerpb.ChaincodeMessage_Type_name {
		seed, err := proto.Marshal(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_Type(kind), Txid: "t", Payload: []byte("\x0a\x03get")})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	contract := Functions{
		"get": func(s *Stub, _ []string) ([]byte, error) {
			if _, err := s.GetCreator(); err != nil {
				_, _ = s.GetTransient()
			}
			it, _, err := s.GetStateByRangeWithPagination("", "", 1, "")
			if err != nil {
				return nil, err
			}
			for it.HasNext() {
				if _, err := it.Next(); err != nil {
					return nil, err
				}
			}
			return nil, it.Close()
		},
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		msg := &peerpb.ChaincodeMessage{}
		if proto.Unmarshal(raw, msg) != nil {
			return
		}
		begin := &peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_TRANSACTION, Txid: "t", Payload: []byte("\x0a\x03get")}
		ready := &peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_READY}
		_ = serve(&scriptedStream{ctx: context.Background(), left: []*peerpb.ChaincodeMessage{ready, begin, msg, msg}}, "id", contract)
	})
}
