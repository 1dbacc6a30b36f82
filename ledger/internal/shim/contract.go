package shim

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Response statuses, as Fabric's peers read them: from ErrorThreshold on a
// response is not endorsed.
const (
	StatusOK       = 200
	ErrorThreshold = 400
	StatusError    = 500
)

// Contract runs transactions; it is called concurrently. An error becomes a
// response with status 500 and the error's text as its message.
type Contract interface {
	Invoke(stub *Stub) ([]byte, error)
}

// Function is one operation of a contract.
type Function func(stub *Stub, args []string) ([]byte, error)

// Functions is a contract that finds its operations by name.
type Functions map[string]Function

// ErrUnknownFunction says that a contract has no such operation.
var ErrUnknownFunction = errors.New("unknown function")

// Invoke calls the function that the first argument names.
func (f Functions) Invoke(stub *Stub) ([]byte, error) {
	name, args := stub.FunctionAndParameters()
	function, ok := f[name]
	if !ok {
		return nil, fmt.Errorf("%w %q: %s are known", ErrUnknownFunction, name, f.names())
	}
	return function(stub, args)
}

func (f Functions) names() string {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func invoke(contract Contract, stub *Stub) (response *peerpb.Response) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Errorf("[%s] the contract panicked in transaction %s: %v", stub.channelID, stub.txID, cause)
			response = &peerpb.Response{Status: StatusError, Message: "the contract panicked"}
		}
	}()
	payload, err := contract.Invoke(stub)
	if err != nil {
		return &peerpb.Response{Status: StatusError, Message: err.Error()}
	}
	return &peerpb.Response{Status: StatusOK, Payload: payload}
}
