package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var log = ops.Logger("shim")

// errTooLarge says that a message was not sent: the peer would end the stream, and with it every transaction of the chaincode.
var errTooLarge = errors.New("too large for the peer's stream")

// txKey tells conversations apart: ids are unique within a channel only.
type txKey struct{ channel, tx string }

// session is the life of one peer's stream.
type session struct {
	contract Contract
	stream   grpc.BidiStreamingServer[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]
	ctx      context.Context
	offered  *peerpb.ChaincodeAdditionalParams // by the peer, before it said READY

	sendMu sync.Mutex // a gRPC stream takes one sender at a time

	mu      sync.Mutex
	ready   bool
	running map[txKey]*Stub
	done    sync.WaitGroup
}

// serve registers as chaincodeID and runs what the peer sends until the stream
// ends. It returns when all its transactions have returned.
func serve(stream grpc.BidiStreamingServer[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage], chaincodeID string, contract Contract) error {
	ctx, cancel := context.WithCancel(stream.Context())
	s := &session{contract: contract, stream: stream, ctx: ctx, running: map[txKey]*Stub{}}
	// Transactions that wait for the peer's answer are released before we wait for them.
	defer s.done.Wait()
	defer cancel()
	id, err := proto.Marshal(&peerpb.ChaincodeID{Name: chaincodeID})
	if err != nil {
		return fmt.Errorf("chaincode id %q: %w", chaincodeID, err)
	}
	if err := s.send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_REGISTER, Payload: id}); err != nil {
		return err
	}
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.handle(msg); err != nil {
			return err
		}
	}
}

// send gives a message to the stream. After errTooLarge the stream is as it was.
func (s *session) send(msg *peerpb.ChaincodeMessage) error {
	if size := proto.Size(msg); size > maxMessageBytes {
		return fmt.Errorf("a message of %d bytes is %w: at most %d are accepted", size, errTooLarge, maxMessageBytes)
	}
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.stream.Send(msg)
}

// handle takes one message of the peer; an error ends the stream.
func (s *session) handle(msg *peerpb.ChaincodeMessage) error {
	switch msg.GetType() {
	case peerpb.ChaincodeMessage_REGISTERED:
		return s.registered(msg)
	case peerpb.ChaincodeMessage_READY:
		s.mu.Lock()
		s.ready = true
		s.mu.Unlock()
		return nil
	case peerpb.ChaincodeMessage_KEEPALIVE:
		return s.send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_KEEPALIVE})
	case peerpb.ChaincodeMessage_TRANSACTION, peerpb.ChaincodeMessage_INIT:
		return s.begin(msg)
	case peerpb.ChaincodeMessage_RESPONSE, peerpb.ChaincodeMessage_ERROR:
		s.answer(msg)
		return nil
	default:
		return fmt.Errorf("the peer sent a message of type %s, which a chaincode does not take", msg.GetType())
	}
}

func (s *session) registered(msg *peerpb.ChaincodeMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return errors.New("the peer said REGISTERED after READY")
	}
	s.offered = &peerpb.ChaincodeAdditionalParams{}
	if err := proto.Unmarshal(msg.GetPayload(), s.offered); err != nil {
		return fmt.Errorf("what the peer offers: %w", err)
	}
	return nil
}

func (s *session) begin(msg *peerpb.ChaincodeMessage) error {
	stub, err := newStub(s, msg)
	if err == nil {
		err = s.admit(stub)
	}
	if err != nil {
		return s.send(failed(msg, err))
	}
	go func() {
		defer s.done.Done()
		s.run(stub)
	}()
	return nil
}

// failed is the last message of the transaction that a message is of, and says why it has failed.
func failed(msg *peerpb.ChaincodeMessage, err error) *peerpb.ChaincodeMessage {
	return &peerpb.ChaincodeMessage{
		Type: peerpb.ChaincodeMessage_ERROR, Payload: []byte(err.Error()), Txid: msg.GetTxid(), ChannelId: msg.GetChannelId(),
	}
}

// admit counts the transaction among the running ones. How many these may be is the peer's affair.
func (s *session) admit(stub *Stub) error {
	key := stub.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.ready:
		return errors.New("the peer has not said READY yet")
	case s.running[key] != nil:
		return fmt.Errorf("transaction %s is already running", stub.txID)
	}
	s.running[key] = stub
	s.done.Add(1)
	return nil
}

func (s *session) run(stub *Stub) {
	msg := s.completed(stub, invoke(s.contract, stub))
	s.mu.Lock()
	delete(s.running, stub.key())
	s.mu.Unlock()
	err := s.send(msg)
	if errors.Is(err, errTooLarge) {
		err = s.send(failed(msg, err))
	}
	if err != nil && s.ctx.Err() == nil {
		log.Warnf("[%s] transaction %s: the response did not reach the peer: %s", stub.channelID, stub.txID, err)
	}
}

// completed is the last message of a transaction, with the writes that the peer has not been told where it takes them so.
func (s *session) completed(stub *Stub, response *peerpb.Response) *peerpb.ChaincodeMessage {
	msg := &peerpb.ChaincodeMessage{
		Type: peerpb.ChaincodeMessage_COMPLETED, Txid: stub.txID, ChannelId: stub.channelID, ChaincodeEvent: stub.event,
	}
	err := stub.refused
	if err == nil && s.offered.GetWritesWithCompleted() {
		msg.Writes = stub.takeWrites()
	} else {
		err = stub.flush()
	}
	if err == nil {
		// A message text that is not UTF-8 cannot be a protobuf string.
		if msg.Payload, err = proto.Marshal(response); err != nil {
			err = fmt.Errorf("the contract's response: %w", err)
		}
	}
	if err != nil {
		msg.Type, msg.Payload, msg.Writes = peerpb.ChaincodeMessage_ERROR, []byte(err.Error()), nil
	}
	return msg
}

// answer hands the peer's reply to the transaction that asked. A reply
// without a waiter belongs to a transaction that has ended.
func (s *session) answer(msg *peerpb.ChaincodeMessage) {
	s.mu.Lock()
	stub := s.running[txKey{msg.GetChannelId(), msg.GetTxid()}]
	s.mu.Unlock()
	if stub == nil {
		return
	}
	select {
	case stub.replies <- msg:
	default:
		log.Warnf("[%s] transaction %s: a reply that was not asked for is dropped", stub.channelID, stub.txID)
	}
}
