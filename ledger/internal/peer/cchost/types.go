package cchost

import (
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Invocation is one run of a chaincode for one transaction.
type Invocation struct {
	ChannelID string
	TxID      string
	Chaincode string // its name, which is also the namespace of its keys
	// SignedProposal is what the client signed: the shim reads creator, transient
	// map and timestamp from it.
	SignedProposal *peerpb.SignedProposal
	Input          *peerpb.ChaincodeInput
	// Defined reports whether the channel has a chaincode of this name; it is asked
	// before a chaincode-to-chaincode call. Nil accepts every hosted chaincode.
	Defined func(chaincode string) bool
}

// Ledger is one transaction's view of the state; it records what is read and written.
// The host calls it from changing goroutines, never from two at a time, and not after
// Execute has returned. Its methods must not wait for I/O.
type Ledger interface {
	// GetState returns the committed value, nil when there is none.
	GetState(namespace, key string) ([]byte, error)
	PutState(namespace, key string, value []byte) error
	DelState(namespace, key string) error
	// Range opens a query over [start, end) in the order of keys; an empty end means no end.
	Range(namespace, start, end string) (Iterator, error)
}

// Iterator is an open range query (rwset.Query is one).
type Iterator interface {
	// Next reads at most limit further entries; more says whether others follow.
	Next(limit int) (entries []*statedb.Entry, more bool, err error)
	// NextKey is where the query would go on: the bookmark of a paged query.
	NextKey() string
}
