package shim

import (
	"fmt"
	"unicode/utf8"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// maxHeld bounds the bytes of writes that wait for the end of a transaction.
const maxHeld = 1 << 20

// PutState adds a write of the key to the transaction. Where the peer takes writes in batches (Fabric 3.1), that it
// refuses one fails the transaction at its end, and may be told by a later call.
func (s *Stub) PutState(key string, value []byte) error {
	if err := checkWritten(key); err != nil {
		return err
	}
	if s.batches() {
		return s.hold(&peerpb.WriteRecord{Type: peerpb.WriteRecord_PUT_STATE, Key: key, Value: value})
	}
	_, err := s.ask(peerpb.ChaincodeMessage_PUT_STATE, &peerpb.PutState{Key: key, Value: value})
	return err
}

// DelState adds a deletion of the key to the transaction; as for refusals, see [Stub.PutState].
func (s *Stub) DelState(key string) error {
	if err := checkWritten(key); err != nil {
		return err
	}
	if s.batches() {
		return s.hold(&peerpb.WriteRecord{Type: peerpb.WriteRecord_DEL_STATE, Key: key})
	}
	_, err := s.ask(peerpb.ChaincodeMessage_DEL_STATE, &peerpb.DelState{Key: key})
	return err
}

// checkWritten refuses what a message cannot carry at once: a write that is held would end the stream, and with it what
// other transactions have under way.
func checkWritten(key string) error {
	if key == "" {
		return fmt.Errorf("%w: a key to write or delete must not be empty", ErrKey)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("%w %q: a key to write or delete is UTF-8", ErrKey, key)
	}
	return nil
}

// batches tells whether writes may wait. After a paged query the peer refuses them, which the contract is told at once.
func (s *Stub) batches() bool { return s.session.offered.GetUseWriteBatch() && !s.paged }

// hold keeps a write for the next batch: each message of its own would wake two processes.
func (s *Stub) hold(write *peerpb.WriteRecord) error {
	s.writes = append(s.writes, write)
	s.held += len(write.GetKey()) + len(write.GetValue())
	if s.held >= maxHeld || len(s.writes) >= int(s.session.offered.GetMaxSizeWriteBatch()) {
		return s.flush()
	}
	return nil
}

// flush tells the peer the writes so far. Once it has refused some the transaction cannot succeed: the
// calls that made them have returned without an error.
func (s *Stub) flush() error {
	if s.refused == nil && len(s.writes) > 0 {
		_, s.refused = s.ask(peerpb.ChaincodeMessage_WRITE_BATCH_STATE, s.takeWrites())
	}
	return s.refused
}

func (s *Stub) takeWrites() *peerpb.WriteBatchState {
	if len(s.writes) == 0 {
		return nil
	}
	batch := &peerpb.WriteBatchState{Rec: s.writes}
	s.writes, s.held = nil, 0
	return batch
}
