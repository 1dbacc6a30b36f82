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
