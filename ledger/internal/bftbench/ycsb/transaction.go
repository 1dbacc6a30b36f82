// Package ycsb is the load of the benchmark: transactions of a few writes each, on keys of which some are more popular
// than others, as clients sign them and replicas execute them.
package ycsb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/finite"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/zipf"
)

// ErrMalformed is what bytes that are no transaction or no batch wrap.
var ErrMalformed = errors.New("malformed")

// Load says what transactions are like.
type Load struct {
	Records    int     // Records is how many keys the table has.
	Skew       float64 // Skew is the exponent of the Zipfian choice of keys, from 0 to below 1.
	Operations int     // Operations is how many writes a transaction makes.
	Burst      int     // Burst is how many transactions a client sends as one, under one signature.
	Value      int     // Value is the size of what a write writes, in bytes.
	Padding    int     // Padding is bytes that a transaction carries and nobody reads.
}

const (
	// mostRecords has whoever draws keys begin within seconds: it sums up a term for each.
	mostRecords = 100_000_000
	// largestTable is of all records, in bytes, each with what finds it. Every replica has a table of its own.
	largestTable = 8 << 30
	// place is about what a table in memory takes to find a record, in bytes.
	place = 32
)

// Validate says what is wrong with it.
func (l Load) Validate() error {
	switch {
	case l.Records < 2 || l.Records > mostRecords:
		return fmt.Errorf("records %d: 2 to %d are accepted", l.Records, mostRecords)
	case !finite.Is(l.Skew) || l.Skew < 0 || l.Skew >= 1:
		return fmt.Errorf("skew %g: 0 to below 1 is accepted", l.Skew)
	case l.Operations < 1 || l.Operations > 1000:
		return fmt.Errorf("operations %d: 1 to 1000 are accepted", l.Operations)
	case l.Burst < 1 || l.Burst > 1000:
		return fmt.Errorf("burst %d: 1 to 1000 are accepted", l.Burst)
	case l.Value < 1 || l.Value > 1<<16:
		return fmt.Errorf("value-size %d: 1 to %d bytes are accepted", l.Value, 1<<16)
	case int64(l.Records)*int64(l.Value+place) > largestTable:
		return fmt.Errorf("records %d of %d bytes: a table of %d bytes at most is accepted, where each takes %d more", l.Records, l.Value, int64(largestTable), place)
	case l.Padding < 0 || l.Padding > 1<<20:
		return fmt.Errorf("padding %d: 0 to %d bytes are accepted", l.Padding, 1<<20)
	}
	return nil
}

// Law is how often each key is drawn. It takes seconds to make for very many keys.
func (l Load) Law() *zipf.Law { return zipf.New(l.Records, l.Skew) }

// Size is at most how many bytes a client's burst of transactions has, without its signature.
func (l Load) Size() int {
	number := func(most int) int { return len(binary.AppendUvarint(nil, uint64(most))) }
	write := number(l.Records-1) + number(l.Value) + l.Value
	return 4*binary.MaxVarintLen64 + l.Burst*(l.Operations*write+l.Padding)
}

// Source makes transactions. One goroutine uses it.
type Source struct {
	load  Load
	law   *zipf.Law
	seed  uint64
	state *rand.PCG // state is what rng draws from
	rng   *rand.Rand
	fill  []byte
	body  []byte
}

// NewSource makes the same transaction of a client and a number for the same seed, whatever was made before.
func NewSource(l Load, law *zipf.Law, seed uint64) *Source {
	state := rand.NewPCG(0, 0)
	return &Source{load: l, law: law, seed: seed, state: state, rng: rand.New(state), fill: make([]byte, max(l.Value, l.Padding*l.Burst))}
}

// mixed spreads small numbers over all 64 bits (SplitMix64).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Append appends a client's burst of transactions with its signature. Number grows from one transaction of the client to the next.
func (s *Source) Append(w *bft.Writer, by auth.Authenticator, client, number uint64) {
	s.state.Seed(mixed(mixed(s.seed)+client), mixed(number))
	body := bft.Writer{Bytes: s.body[:0]}
	body.Uint(client)
	body.Uint(number)
	writes := s.load.Operations * s.load.Burst
	body.Uint(uint64(writes))
	for range writes {
		body.Uint(uint64(s.law.Draw(s.rng.Float64())))
		value := s.fill[:s.load.Value]
		value[0] = byte(number)
		body.Chunk(value)
	}
	body.Chunk(s.fill[:s.load.Padding*s.load.Burst])
	s.body = body.Bytes
	w.Chunk(body.Bytes)
	w.Chunk(by.Broadcast(body.Bytes))
}

// Signed is a transaction as it travels; both are parts of what it was read from.
type Signed struct{ Body, Signature []byte }

// ReadSigned reads the next transaction of a frame or a batch.
func ReadSigned(r *bft.Reader) Signed { return Signed{Body: r.Chunk(), Signature: r.Chunk()} }

// AppendSigned appends it.
func AppendSigned(w *bft.Writer, t Signed) {
	w.Chunk(t.Body)
	w.Chunk(t.Signature)
}

// Size is about how much it takes in a batch.
func (t Signed) Size() int { return len(t.Body) + len(t.Signature) + 8 }

// Client is who sends it.
func (t Signed) Client() (uint64, bool) {
	r := bft.NewReader(t.Body)
	client := r.Uint()
	return client, client>>MachineBits < 1<<16
}

// MachineBits is where in a client's number its machine begins.
const MachineBits = 32

// MachineOf is the machine on which a client runs.
func MachineOf(client uint64) int { return int(client >> MachineBits) }

// AnswerSize is the length of an answer to a transaction: a client of the machine and a number.
const AnswerSize = 12

// AppendAnswer appends one.
func AppendAnswer(to []byte, client, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(to, uint32(client)), number)
}

// ReadAnswer reads one.
func ReadAnswer(from []byte) (client uint32, number uint64) {
	return binary.BigEndian.Uint32(from), binary.BigEndian.Uint64(from[4:])
}

// Table is what transactions write to.
type Table interface {
	// Begin and Commit enclose the writes of one transaction.
	Begin() error
	Write(key uint64, value []byte) error
	Commit() error
	Close() error
}

// Execute makes the writes of a transaction's body. What no correct client sends writes nothing: every replica
// refuses the same.
func Execute(body []byte, table Table) error {
	r := bft.NewReader(body)
	_, _ = r.Uint(), r.Uint() // the client, and the transaction's number
	count := r.Count(2)       // a key, and a value's length
	if err := table.Begin(); err != nil {
		return err
	}
	for range count {
		key, value := r.Uint(), r.Chunk()
		if value == nil {
			break
		}
		if err := table.Write(key, value); err != nil {
			return err
		}
	}
	return table.Commit()
}

// Who reads whose transaction a body is.
func Who(body []byte) (client, number uint64) {
	r := bft.NewReader(body)
	return r.Uint(), r.Uint()
}

// Batch spells transactions as the one string that replicas order.
func Batch(txs []Signed, unique uint64) []byte {
	size := 16
	for _, t := range txs {
		size += t.Size()
	}
	w := bft.Writer{Bytes: make([]byte, 0, size)}
	w.Uint(unique)
	w.Uint(uint64(len(txs)))
	for _, t := range txs {
		AppendSigned(&w, t)
	}
	return w.Bytes
}

// Unbatch calls f for each transaction, until it returns false.
func Unbatch(batch []byte, f func(Signed) bool) error {
	r := bft.NewReader(batch)
	r.Uint()
	for range r.Count(2) { // the lengths of a body and of a signature
		t := ReadSigned(r)
		if t.Body == nil {
			return fmt.Errorf("%w batch", ErrMalformed)
		}
		if !f(t) {
			return nil
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w batch", ErrMalformed)
	}
	return nil
}

// Check verifies the signatures of all transactions of a batch.
func Check(batch []byte, by auth.Authenticator) bool {
	good := true
	err := Unbatch(batch, func(t Signed) bool {
		good = CheckOne(t, by)
		return good
	})
	return good && err == nil
}

// CheckOne verifies the signature of one.
func CheckOne(t Signed, by auth.Authenticator) bool {
	client, ok := t.Client()
	return ok && by.VerifyBroadcast(auth.Machine(MachineOf(client)), t.Body, t.Signature)
}
