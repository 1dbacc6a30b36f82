// Package bft is what the protocols that order under liars have in common: groups and
// their quorums, entries, checkpoints, and the shape of a core. A core is pure: inputs
// in, effects out, no clock, no goroutine, no disk, no network.
package bft

import (
	"errors"
	"time"
)

// ID names a replica for as long as the channel lives; 0 is nobody.
type ID = uint64

// Time is a replica's own monotonic clock, since any fixed moment.
type Time = time.Duration

// Core is one replica's part in a protocol.
type Core interface {
	// Step takes one input and says what follows from it. Time never goes back.
	Step(now Time, in Input) Effects
	// Records is all that New needs to go on from here, in place of all records before.
	Records() []Record
	// View says where the replica stands.
	View() View
}

// Input is Submit, Received, Tick, Synced, Logged or Fetched.
type Input interface{ input() }

// Submit is a transaction that a client has handed to this replica.
type Submit struct{ Tx []byte }

// Received is a message of another replica. The link vouches for From.
type Received struct {
	From    ID
	Message Message
}

// Tick says that time has passed: Effects.Deadline was reached.
type Tick struct{}

// Synced answers an Ordered with Sync: the state up to Seq is durable and has this digest.
// Members are who orders after it, ascending; they count where the entry was a configuration.
type Synced struct {
	Seq     uint64
	State   Digest
	Members []ID
}

// Logged says that a Fetch of the state at Seq is about to begin: the records of all steps up to its own are durable.
type Logged struct{ Seq uint64 }

// Fetched answers a Fetch: the state is now that of the certificate at Seq, durably. Known has its transactions.
type Fetched struct {
	Seq  uint64
	Past []Digest // transactions that the state has not, and has no more use for
}

func (Submit) input()   {}
func (Received) input() {}
func (Tick) input()     {}
func (Synced) input()   {}
func (Logged) input()   {}
func (Fetched) input()  {}

// Message is what replicas send each other. Whoever has one must not change it.
type Message interface {
	// Kind is the message's name, as metrics and scripts spell it.
	Kind() string
}

// Dated is a message that says which epoch its sender is in.
type Dated interface{ In() uint64 }

// Record is what a replica must not forget.
type Record interface{ Kind() string }

// Effects is what follows from a step, in this order: AtOnce, Persist, Undo, Ahead, Apply, then everything else. What a
// step sends, applies or answers must wait for the records of all steps before it as well; AtOnce waits for none.
type Effects struct {
	// AtOnce leaves before anything is durable. It promises nothing that a replica might forget in a crash.
	AtOnce  []Outgoing
	Persist []Record
	// Undo takes back all that was executed ahead after this sequence number; nil: nothing.
	Undo *uint64
	// Ahead is executed although it is not decided. Undo may take it back, Apply makes it last.
	Ahead   []Ordered
	Apply   []Ordered
	Answer  []Answer
	Send    []Outgoing
	Fetch   *Fetch    // begins when an earlier one that is under way has ended
	Refused []Refusal // of what was submitted here
	// Settle is called once the records of all before it are durable; nil: there is nothing to call. It is of whoever runs a
	// core, which leaves it empty.
	Settle func()
	// Deadline is when Tick is due; 0: never.
	Deadline Time
	// Fault says why this replica must stop: more than f replicas lie, or its own state is damaged.
	Fault error
}

// Outgoing is a message for one replica.
type Outgoing struct {
	To      ID
	Message Message
}

// Answer is what the clients of an entry's transactions are told.
type Answer struct {
	Entry   *Entry
	Message Message
}

// Ordered is an entry of the common order. The first has sequence number 1, and none is left out.
type Ordered struct {
	Seq   uint64
	Entry *Entry // nil: nothing to apply, only to sync
	// Sync asks for a Synced about the state right after this entry.
	Sync bool
}

// State is where the state machine stands when a replica starts.
type State struct {
	Applied uint64 // the last entry that is durably applied
	Closed  bool   // it is a configuration
	// Begin is the configuration that makes a replica without records a member, where the ledger came to it by itself.
	// The ledger vouches for it, so that no epoch before has to be proven. Zero: the replica begins with the first epoch.
	Begin Checkpoint
}

// Client is the part in a protocol of one who has transactions ordered, where replicas alone cannot say what is
// decided. Its inputs are Submit, Received and Tick. It has an ID that is no replica's.
type Client interface {
	// Step takes one input and says what follows from it. Time never goes back.
	Step(now Time, in Input) ClientEffects
}

// ClientEffects is what follows from a client's step.
type ClientEffects struct {
	Send     []Outgoing
	Accepted []Accepted
	Deadline Time // when Tick is due; 0: never
}

// Accepted is a transaction that is decided.
type Accepted struct {
	Tx  Digest
	Seq uint64 // of its entry; 0: nobody has said
	How Proof
}

// Proof is what a client accepts a transaction by.
type Proof int

const (
	// ByAll is the same history at every replica.
	ByAll Proof = iota
	// ByCertificate is a certificate that a quorum holds.
	ByCertificate
	// ByWord is the word of f+1 replicas that it is decided.
	ByWord
)

// Fetch asks for the state that a certificate vouches for. Every correct replica that has signed it has that state.
type Fetch struct{ Certificate Certificate }

// ErrOverload is why a transaction is refused while too many wait.
var ErrOverload = errors.New("too many transactions wait to be ordered")

// ErrOutdated is why a transaction is refused that the orderer has let in, and that a configuration since does not allow.
var ErrOutdated = errors.New("a configuration that came first does not allow the transaction")

// Refusal says why a submitted transaction was not taken, or is not waited for any longer.
type Refusal struct {
	Tx     Digest
	Reason error
}

// View is where a replica stands, for metrics and status.
type View struct {
	Group      Group
	View       uint64
	Leader     ID
	Active     bool // false: it waits for a new view
	Fetching   bool // it takes over what others have ordered
	Applied    uint64
	Stable     uint64 // sequence number of the stable checkpoint
	Last       uint64 // highest sequence number that it has accepted
	Held       int    // sequence numbers that it keeps votes or entries of
	Pending    int    // transactions that wait to be ordered
	Suspicions uint64 // views that it has given up since it started
	Asked      Time   // when one of an epoch before asked last where this one is; 0: none has
}

// Oracle is what a core asks about signatures and transactions. The answers depend on
// nothing but the arguments, except for Known, and Check's on the configuration in force.
type Oracle interface {
	// Sign signs as this replica.
	Sign(data []byte) []byte
	// Verify reports whether a replica has signed data.
	Verify(by ID, data, signature []byte) bool
	// Check reports whether a client whom the configuration in force allows has signed the transaction, and whether it is a
	// configuration, which has to follow that one.
	Check(tx []byte) (config, ok bool)
	// Mark reports whether the transaction is one of the replicas' own, of which an entry has one at most.
	Mark(tx []byte) bool
	// Known reports whether the state has this transaction already.
	Known(tx Digest) bool
}
