// Package simple is Caliper's smallest contract: accounts that hold one number.
package simple

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim"
)

// New returns the contract.
func New() shim.Contract {
	return shim.Functions{
		"open":     record.Arity(2, "account, money", open),
		"query":    record.Arity(1, "account", query),
		"transfer": record.Arity(3, "from, to, money", transfer),
		"delete":   record.Arity(1, "account", del),
	}
}

func balance(stub *shim.Stub, account string) (money int64, err error) {
	err = record.Get(stub, account, "account "+account, &money)
	return money, err
}

func open(stub *shim.Stub, args []string) ([]byte, error) {
	money, err := record.Amount(args[1])
	if err != nil {
		return nil, err
	}
	if err := record.MustBeFree(stub, args[0], "account "+args[0]); err != nil {
		return nil, err
	}
	return nil, record.Put(stub, args[0], money)
}

func query(stub *shim.Stub, args []string) ([]byte, error) {
	money, err := balance(stub, args[0])
	if err != nil {
		return nil, err
	}
	return json.Marshal(money)
}

func transfer(stub *shim.Stub, args []string) ([]byte, error) {
	from, to := args[0], args[1]
	money, err := record.Amount(args[2])
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("%w: source and destination are the same account", record.ErrArguments)
	}
	source, err := balance(stub, from)
	if err != nil {
		return nil, err
	}
	destination, err := balance(stub, to)
	if err != nil {
		return nil, err
	}
	if source < money {
		return nil, fmt.Errorf("%w: %d of %d", record.ErrInsufficient, money, source)
	}
	sum, err := record.Sum(destination, money)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(record.Put(stub, from, source-money), record.Put(stub, to, sum))
}

func del(stub *shim.Stub, args []string) ([]byte, error) {
	if _, err := balance(stub, args[0]); err != nil {
		return nil, err
	}
	return nil, stub.DelState(args[0])
}
