package protoutil

import (
	"errors"
	"strings"
)

// ErrExhausted is wrapped, first of all, by the errors of an orderer that has too much to do. Gateways tell their clients
// then to slow down, and do not try elsewhere.
var ErrExhausted = errors.New("RESOURCE_EXHAUSTED")

// Exhausted reports whether the info of an orderer's answer is the text of an error that wraps ErrExhausted: an answer
// has no other room for it.
func Exhausted(info string) bool { return strings.HasPrefix(info, ErrExhausted.Error()) }

// Beginnings of what a gateway says, in an error's details, of an orderer that has not taken a transaction. A client goes by
// them: any other detail leaves open whether the transaction is ordered.
const (
	// RefusedByOrderer is Fabric's word for an answer that is not SUCCESS.
	RefusedByOrderer = "received unsuccessful response from orderer"
	// OrdererBacklog is said of an orderer that was not asked.
	OrdererBacklog = "too many transactions wait for the orderer's answer"
)
