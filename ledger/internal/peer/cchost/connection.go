package cchost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// errTooLarge says that a message was not sent: it would end the stream, and with it every transaction of the chaincode.
var errTooLarge = errors.New("too large for the chaincode's stream")

// messageStream is our end of the gRPC stream.
type messageStream interface {
	Context() context.Context
	Send(*peerpb.ChaincodeMessage) error
	Recv() (*peerpb.ChaincodeMessage, error)
}

// callKey tells conversations apart: ids are unique within a channel only.
type callKey struct{ channel, tx string }

// connection is one stream to a registered chaincode.
type connection struct {
	host      *Host
	chaincode string
	stream    messageStream

	sendMu  sync.Mutex   // a gRPC stream takes one sender at a time
	sending atomic.Int64 // since when the stream has been taking a message; 0: it is not

	mu    sync.Mutex
	calls map[callKey]*call
	dead  bool
}

func newConnection(h *Host, chaincode string, stream messageStream) *connection {
	return &connection{host: h, chaincode: chaincode, stream: stream, calls: map[callKey]*call{}}
}

// begin enters a call.
func (c *connection) begin(tx *transaction, namespace string) (*call, error) {
	key := callKey{tx.in.ChannelID, tx.in.TxID}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return nil, ErrTerminated
	case c.calls[key] != nil:
		return nil, ErrRunning
	case len(c.calls) >= c.host.config.MaxRunning:
		return nil, fmt.Errorf("%w: at most %d are accepted", ErrBusy, c.host.config.MaxRunning)
	}
	call := &call{conn: c, tx: tx, key: key, namespace: namespace, done: make(chan ending, 1)}
	c.calls[key] = call
	return call, nil
}

// leave removes a call that ended without the chaincode's answer, for example by timeout.
func (c *connection) leave(ended *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[ended.key] == ended { // and not a later one of the same transaction
		delete(c.calls, ended.key)
	}
}

// take removes a call, so that only one can end it.
func (c *connection) take(key callKey) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[key]
	delete(c.calls, key)
	return call
}

func (c *connection) find(key callKey) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[key]
}

// fail ends every call: the stream is gone.
func (c *connection) fail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for key, call := range c.calls {
		call.done <- ending{err: ErrTerminated}
		delete(c.calls, key)
	}
}

// send gives a message to the stream. After errTooLarge the stream is as it was.
func (c *connection) send(msg *peerpb.ChaincodeMessage) error {
	if size, most := proto.Size(msg), c.host.config.MaxMessageBytes; size > most {
		return fmt.Errorf("a message of %d bytes is %w: at most %d are accepted", size, errTooLarge, most)
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.sending.Store(time.Now().UnixNano())
	defer c.sending.Store(0)
	if err := c.stream.Send(msg); err != nil {
		if errors.Is(err, io.EOF) { // gRPC's word for a stream that Recv knows more about
			return ErrTerminated
		}
		return fmt.Errorf("%w: %w", err, ErrTerminated)
	}
	return nil
}

// receive answers the chaincode until the stream ends, which is always an error.
func (c *connection) receive() error {
	for {
		msg, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("it closed the stream")
		}
		if err != nil {
			return err
		}
		if err := c.handle(msg); err != nil {
			return err
		}
	}
}

func (c *connection) handle(msg *peerpb.ChaincodeMessage) error {
	key := callKey{msg.GetChannelId(), msg.GetTxid()}
	switch msg.GetType() {
	case peerpb.ChaincodeMessage_KEEPALIVE:
		return nil
	case peerpb.ChaincodeMessage_COMPLETED:
		if call := c.take(key); call != nil {
			call.done <- call.end(msg)
		}
		return nil
	case peerpb.ChaincodeMessage_ERROR:
		if call := c.take(key); call != nil {
			call.done <- ending{err: fmt.Errorf("%w: %s", ErrFailed, msg.GetPayload())}
		}
		return nil
	}
	call := c.find(key)
	if call == nil { // it has timed out here, and the contract runs on
		return c.answer(msg, nil, errors.New("no such transaction is running"))
	}
	if msg.GetType() == peerpb.ChaincodeMessage_INVOKE_CHAINCODE {
		return call.invoke(msg)
	}
	payload, err := call.ask(msg)
	return c.answer(msg, payload, err)
}

// answer replies to a question of the chaincode. An answer that is too large becomes an error, which is the transaction's alone.
func (c *connection) answer(question *peerpb.ChaincodeMessage, payload []byte, err error) error {
	reply := &peerpb.ChaincodeMessage{Txid: question.GetTxid(), ChannelId: question.GetChannelId()}
	if err == nil {
		reply.Type, reply.Payload = peerpb.ChaincodeMessage_RESPONSE, payload
		if err = c.send(reply); !errors.Is(err, errTooLarge) {
			return err
		}
	}
	reply.Type, reply.Payload = peerpb.ChaincodeMessage_ERROR, []byte(err.Error())
	return c.send(reply)
}
