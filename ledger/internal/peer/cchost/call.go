package cchost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Reasons for which a question is refused.
var (
	errEnded       = errors.New("the transaction has ended")
	errPrivateData = errors.New("private data collections are not supported by this ledger")
	errHistory     = errors.New("the history of keys is not supported by this ledger")
	errRichQuery   = errors.New("rich queries are not supported by this ledger: its state is ordered keys; range queries are")
	errKeyPolicy   = errors.New("key-level endorsement is not supported by this ledger")
	errPagedWrite  = errors.New("a transaction with a paged query is read-only: it cannot write")
	errWritePaged  = errors.New("a transaction that has written cannot make a paged query")
)

// transaction is what the calls of one Execute share.
type transaction struct {
	ctx context.Context
	in  Invocation

	mu     sync.Mutex // the ledger is not safe for concurrent use
	ledger Ledger
	ended  bool
	wrote  bool
	paged  bool
}

// end keeps late questions away from the ledger.
func (t *transaction) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// ending is how a call ended: with COMPLETED, or without a response.
type ending struct {
	msg *peerpb.ChaincodeMessage
	err error
}

// call is one chaincode's part in a transaction.
type call struct {
	conn      *connection
	tx        *transaction
	key       callKey
	namespace string
	done      chan ending // room for one; only the goroutine that took the call from the connection sends

	invoking atomic.Bool
	queries  map[string]*query // under tx.mu
	opened   int               // queries so far
}

// ask answers a question about the state.
func (c *call) ask(msg *peerpb.ChaincodeMessage) ([]byte, error) {
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	if c.tx.ended {
		return nil, errEnded
	}
	switch msg.GetType() {
	case peerpb.ChaincodeMessage_GET_STATE:
		return c.get(msg.GetPayload())
	case peerpb.ChaincodeMessage_GET_STATE_MULTIPLE:
		return c.getMultiple(msg.GetPayload())
	case peerpb.ChaincodeMessage_PUT_STATE:
		return nil, c.put(msg.GetPayload())
	case peerpb.ChaincodeMessage_DEL_STATE:
		return nil, c.del(msg.GetPayload())
	case peerpb.ChaincodeMessage_WRITE_BATCH_STATE:
		return nil, c.writeBatch(msg.GetPayload())
	case peerpb.ChaincodeMessage_GET_STATE_BY_RANGE:
		return c.rangeQuery(msg.GetPayload())
	case peerpb.ChaincodeMessage_QUERY_STATE_NEXT:
		return c.queryNext(msg.GetPayload())
	case peerpb.ChaincodeMessage_QUERY_STATE_CLOSE:
		return c.queryClose(msg.GetPayload())
	case peerpb.ChaincodeMessage_GET_QUERY_RESULT:
		return nil, errRichQuery
	case peerpb.ChaincodeMessage_GET_HISTORY_FOR_KEY:
		return nil, errHistory
	case peerpb.ChaincodeMessage_GET_PRIVATE_DATA_HASH, peerpb.ChaincodeMessage_PURGE_PRIVATE_DATA:
		return nil, errPrivateData
	case peerpb.ChaincodeMessage_GET_STATE_METADATA, peerpb.ChaincodeMessage_PUT_STATE_METADATA:
		return nil, errKeyPolicy
	default:
		return nil, fmt.Errorf("a message of type %s is not supported by this ledger", msg.GetType())
	}
}

// invoke runs another chaincode within the transaction. It waits for that chaincode,
// so it has a goroutine of its own; a contract waits for its answer, so one is enough.
func (c *call) invoke(msg *peerpb.ChaincodeMessage) error {
	if !c.invoking.CompareAndSwap(false, true) {
		return c.conn.answer(msg, nil, errors.New("the transaction is already calling a chaincode"))
	}
	go func() {
		payload, err := c.callChaincode(msg.GetPayload())
		c.invoking.Store(false)
		// A stream that is gone has told our own caller already.
		_ = c.conn.answer(msg, payload, err)
	}()
	return nil
}

func (c *call) callChaincode(payload []byte) ([]byte, error) {
	spec := &peerpb.ChaincodeSpec{}
	if err := protoutil.Unmarshal(payload, spec); err != nil {
		return nil, err
	}
	// The shim writes NAME, NAME/CHANNEL, and where a version is given NAME:VERSION.
	name, channel, _ := strings.Cut(spec.GetChaincodeId().GetName(), "/")
	name, _, _ = strings.Cut(name, ":")
	if channel != "" && channel != c.tx.in.ChannelID {
		return nil, fmt.Errorf("chaincode %s on channel %s: only chaincodes on the transaction's own channel %s can be called", name, channel, c.tx.in.ChannelID)
	}
	if c.tx.in.Defined != nil && !c.tx.in.Defined(name) {
		return nil, fmt.Errorf("chaincode %s is not defined on channel %s", name, c.tx.in.ChannelID)
	}
	done, err := c.conn.host.run(c.tx, name, spec.GetInput())
	if err != nil {
		return nil, fmt.Errorf("chaincode %s: %w", name, err)
	}
	// The caller gets the other's last message, less what is not for it.
	return proto.Marshal(&peerpb.ChaincodeMessage{
		Type: done.GetType(), Payload: done.GetPayload(), Txid: done.GetTxid(), ChannelId: done.GetChannelId(),
	})
}
