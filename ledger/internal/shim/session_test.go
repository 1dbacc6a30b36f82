package shim

import (
	"context"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// scriptedStream is a peer that sends a fixed list of messages and then hangs up.
type scriptedStream struct {
	ctx  context.Context
	left []*peerpb.ChaincodeMessage
}

func (s *scriptedStream) Context() context.Context            { return s.ctx }
func (s *scriptedStream) Send(*peerpb.ChaincodeMessage) error { return nil }
func (s *scriptedStream) Recv() (*peerpb.ChaincodeMessage, error) {
	if len(s.left) == 0 {
		return nil, io.EOF
	}
	msg := s.left[0]
	s.left = s.left[1:]
	return msg, nil
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
		_ = serve(&scriptedStream{context.Background(), []*peerpb.ChaincodeMessage{ready, begin, msg, msg}}, "id", contract)
	})
}
