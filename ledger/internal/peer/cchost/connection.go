package cchost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// errTooLarge says that a message was not sent: it would end the stream, and with it every transaction of the chaincode.
var errTooLarge = errors.New("too large for the chaincode's stream")

const (
	// abandonedPerPlace is how many calls that nobody waits for a chaincode may run for each place of MaxRunning: a contract
	// that hangs now and then must not fill the places of the others. Beyond that new ones are refused. To let go of an old
	// key would be worse, as its proposal could be endorsed with writes of its first run.
	abandonedPerPlace = 10
	// abandonedWarned is the part of them from which the log warns, one in so many, and warnAgain how often at most.
	abandonedWarned = 100
	warnAgain       = 10 * time.Minute
)

// callKey tells conversations apart: ids are unique within a channel only.
type callKey struct{ channel, tx string }

// connection is one stream to a registered chaincode.
type connection struct {
	host      *Host
	chaincode string
	stream    grpc.BidiStreamingClient[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]

	turn    chan struct{} // full while somebody sends: a gRPC stream takes one sender at a time
	sending atomic.Int64  // since when the stream has been taking a message; 0: it is not

	mu sync.Mutex
	// calls are those that the chaincode runs; nil: nobody waits for it, and its questions are refused. A second run under
	// the same key would get what the first one still writes.
	calls map[callKey]*call
	// abandoned is how many of calls nobody waits for; warned is when the log last said so.
	abandoned int
	warned    time.Time
	dead      bool
}

func newConnection(h *Host, chaincode string, stream grpc.BidiStreamingClient[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]) *connection {
	return &connection{host: h, chaincode: chaincode, stream: stream, turn: make(chan struct{}, 1), calls: map[callKey]*call{}}
}

// begin enters a call.
func (c *connection) begin(tx *transaction, namespace string) (*call, error) {
	key := callKey{tx.in.ChannelID, tx.in.TxID}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, runs := c.calls[key]
	most := c.host.config.MaxRunning
	switch {
	case c.dead:
		return nil, ErrTerminated
	case runs:
		return nil, ErrRunning
	case len(c.calls)-c.abandoned >= most:
		return nil, fmt.Errorf("%w: at most %d are accepted", ErrBusy, most)
	case c.abandoned >= abandonedPerPlace*most:
		return nil, fmt.Errorf("%w: %d that nobody waits for still run, at most %d are accepted: restart the chaincode if they hang",
			ErrBusy, c.abandoned, abandonedPerPlace*most)
	}
	call := &call{conn: c, tx: tx, key: key, namespace: namespace, done: make(chan ending, 1)}
	c.calls[key] = call
	return call, nil
}

// withdraw removes a call of which the chaincode was not told.
func (c *connection) withdraw(untold *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[untold.key] == untold {
		delete(c.calls, untold.key)
	}
}

// abandon leaves a call that nobody waits for any longer, for example after a timeout, to the chaincode, which runs it on.
func (c *connection) abandon(left *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[left.key] != left { // it has ended at this very moment
		return
	}
	c.calls[left.key] = nil
	c.abandoned++
	most := abandonedPerPlace * c.host.config.MaxRunning
	if c.abandoned*abandonedWarned >= most && time.Since(c.warned) >= warnAgain {
		c.warned = time.Now()
		log.Warnf("chaincode %s still runs %d transactions that nobody waits for, of at most %d: restart it if they hang",
			c.chaincode, c.abandoned, most)
	}
}

// take removes a call that the chaincode has ended, and gives it to the one that is to tell its caller; nil where nobody waits.
func (c *connection) take(key callKey) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, runs := c.calls[key]
	delete(c.calls, key)
	if runs && call == nil {
		c.abandoned--
	}
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
	for _, call := range c.calls {
		if call != nil {
			call.done <- ending{err: ErrTerminated}
		}
	}
	clear(c.calls)
	c.abandoned = 0
}

// send gives a message to the stream, unless ctx ends before it is its turn. After ctx's cause and after errTooLarge the
// stream is as it was.
func (c *connection) send(ctx context.Context, msg *peerpb.ChaincodeMessage) error {
	if size, most := proto.Size(msg), c.host.config.MaxMessageBytes; size > most {
		return fmt.Errorf("a message of %d bytes is %w: at most %d are accepted", size, errTooLarge, most)
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil { // both were there, and select has chosen
		return context.Cause(ctx)
	}
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
	if call == nil { // it was abandoned, and the contract runs on
		return c.answer(msg, nil, errors.New("no such transaction is running"))
	}
	if msg.GetType() == peerpb.ChaincodeMessage_INVOKE_CHAINCODE {
		return call.invoke(msg)
	}
	payload, err := call.ask(msg)
	return c.answer(msg, payload, err)
}

// answer replies to a question of the chaincode, and waits for its turn as long as the stream lives, which says itself why it
// has ended. An answer that is too large becomes an error, which is the transaction's alone.
func (c *connection) answer(question *peerpb.ChaincodeMessage, payload []byte, err error) error {
	reply := &peerpb.ChaincodeMessage{Txid: question.GetTxid(), ChannelId: question.GetChannelId()}
	if err == nil {
		reply.Type, reply.Payload = peerpb.ChaincodeMessage_RESPONSE, payload
		if err = c.send(context.Background(), reply); !errors.Is(err, errTooLarge) {
			return err
		}
	}
	reply.Type, reply.Payload = peerpb.ChaincodeMessage_ERROR, []byte(err.Error())
	return c.send(context.Background(), reply)
}
