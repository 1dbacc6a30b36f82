package cchost

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// maxBatch is Fabric's default: keys in one read, and writes in one batch.
const maxBatch = 1000

func (c *call) get(payload []byte) ([]byte, error) {
	q := &peerpb.GetState{}
	if err := protoutil.Unmarshal(payload, q); err != nil {
		return nil, err
	}
	if q.GetCollection() != "" {
		return nil, errPrivateData
	}
	return c.tx.ledger.GetState(c.namespace, q.GetKey())
}

// overhead is more than an answer adds to the values in it.
const overhead = 1 << 20

// getMultiple gives the values in the order of their keys, empty where there is none.
func (c *call) getMultiple(payload []byte) ([]byte, error) {
	q, result := &peerpb.GetStateMultiple{}, &peerpb.GetStateMultipleResult{}
	if err := protoutil.Unmarshal(payload, q); err != nil {
		return nil, err
	}
	if q.GetCollection() != "" {
		return nil, errPrivateData
	}
	if n := len(q.GetKeys()); n > maxBatch {
		return nil, fmt.Errorf("%d keys in one question: at most %d are accepted", n, maxBatch)
	}
	size, most := 0, c.conn.host.config.MaxMessageBytes-overhead
	for _, key := range q.GetKeys() {
		value, err := c.tx.ledger.GetState(c.namespace, key)
		if err != nil {
			return nil, err
		}
		// A message that is too large would end the stream, and with it every transaction of the chaincode.
		if size += len(value); size > most {
			return nil, fmt.Errorf("values of more than %d bytes in one answer: ask for fewer keys at once", most)
		}
		result.Values = append(result.Values, value)
	}
	return proto.Marshal(result)
}

func (c *call) put(payload []byte) error {
	q := &peerpb.PutState{}
	if err := protoutil.Unmarshal(payload, q); err != nil {
		return err
	}
	return c.write(&peerpb.WriteRecord{Type: peerpb.WriteRecord_PUT_STATE, Key: q.GetKey(), Value: q.GetValue(), Collection: q.GetCollection()})
}

func (c *call) del(payload []byte) error {
	q := &peerpb.DelState{}
	if err := protoutil.Unmarshal(payload, q); err != nil {
		return err
	}
	return c.write(&peerpb.WriteRecord{Type: peerpb.WriteRecord_DEL_STATE, Key: q.GetKey(), Collection: q.GetCollection()})
}

func (c *call) mayWrite(collection string) error {
	if collection != "" {
		return errPrivateData
	}
	if c.tx.paged {
		return errPagedWrite
	}
	c.tx.wrote = true
	return nil
}

func (c *call) writeBatch(payload []byte) error {
	batch := &peerpb.WriteBatchState{}
	if err := protoutil.Unmarshal(payload, batch); err != nil {
		return err
	}
	return c.writeAll(batch)
}

func (c *call) writeAll(batch *peerpb.WriteBatchState) error {
	if n := len(batch.GetRec()); n > maxBatch {
		return fmt.Errorf("%d writes in one batch: at most %d are accepted", n, maxBatch)
	}
	for _, one := range batch.GetRec() {
		if err := c.write(one); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) write(one *peerpb.WriteRecord) error {
	if err := c.mayWrite(one.GetCollection()); err != nil {
		return err
	}
	switch one.GetType() {
	case peerpb.WriteRecord_PUT_STATE:
		return c.tx.ledger.PutState(c.namespace, one.GetKey(), one.GetValue())
	case peerpb.WriteRecord_DEL_STATE:
		return c.tx.ledger.DelState(c.namespace, one.GetKey())
	case peerpb.WriteRecord_PUT_STATE_METADATA:
		return errKeyPolicy
	case peerpb.WriteRecord_PURGE_PRIVATE_DATA:
		return errPrivateData
	default:
		return fmt.Errorf("a write of type %s is not supported by this ledger", one.GetType())
	}
}

// end applies what came with the last message, before the call's caller is told.
func (c *call) end(msg *peerpb.ChaincodeMessage) ending {
	if msg.GetWrites() == nil {
		return ending{msg: msg}
	}
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	if c.tx.ended {
		return ending{err: errEnded}
	}
	if err := c.writeAll(msg.GetWrites()); err != nil {
		return ending{err: fmt.Errorf("%w: %s", ErrFailed, err)}
	}
	return ending{msg: msg}
}
