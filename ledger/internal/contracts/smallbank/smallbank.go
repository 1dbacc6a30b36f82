// Package smallbank is the banking contract of the H-Store benchmark, with the
// function names, argument orders and stored fields of Caliper's smallbank for
// Fabric, so that Caliper's workload modules run against it unchanged.
//
// Unlike Caliper's it keeps the books: money is neither created by paying
// oneself nor by overdrawing, so that a test can check the sum of all accounts.
package smallbank

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim"
)

// What a transaction can be refused for.
var (
	ErrArguments    = record.ErrArguments
	ErrNoAccount    = errors.New("account does not exist")
	ErrExists       = errors.New("account exists already")
	ErrInsufficient = record.ErrInsufficient
)

// Account is the stored record.
type Account struct {
	ID       string `json:"CustomId"`
	Name     string `json:"CustomName"`
	Savings  int64  `json:"SavingsBalance"`
	Checking int64  `json:"CheckingBalance"`
}

// New returns the contract. The short names are what people call the three
// operations that Caliper knows under the names of the H-Store benchmark.
func New() shim.Contract {
	deposit := record.Arity(2, "amount, customer_id", depositChecking)
	check := record.Arity(2, "amount, customer_id", writeCheck)
	payment := record.Arity(3, "amount, dest_customer_id, source_customer_id", sendPayment)
	return shim.Functions{
		"create_account":   record.Arity(4, "customer_id, customer_name, initial_checking_balance, initial_savings_balance", createAccount),
		"deposit_checking": deposit,
		"deposit":          deposit,
		"transact_savings": record.Arity(2, "amount, customer_id", transactSavings),
		"write_check":      check,
		"withdraw":         check,
		"send_payment":     payment,
		"transfer":         payment,
		"amalgamate":       record.Arity(2, "dest_customer_id, source_customer_id", amalgamate),
		"query":            record.Arity(1, "customer_id", query),
	}
}

func createAccount(stub *shim.Stub, args []string) ([]byte, error) {
	checking, err := record.Amount(args[2])
	if err != nil {
		return nil, err
	}
	savings, err := record.Amount(args[3])
	if err != nil {
		return nil, err
	}
	if args[0] == "" {
		return nil, fmt.Errorf("%w: an account needs a customer id", ErrArguments)
	}
	// The read makes two creations of one account conflict instead of overwrite.
	found, err := stub.GetState(key(args[0]))
	if err != nil {
		return nil, err
	}
	if found != nil {
		return nil, fmt.Errorf("%w: %s", ErrExists, args[0])
	}
	return nil, save(stub, &Account{ID: args[0], Name: args[1], Savings: savings, Checking: checking})
}

func depositChecking(stub *shim.Stub, args []string) ([]byte, error) {
	return nil, change(stub, args[0], args[1], func(a *Account, n int64) error {
		return add(&a.Checking, n)
	})
}

func writeCheck(stub *shim.Stub, args []string) ([]byte, error) {
	return nil, change(stub, args[0], args[1], func(a *Account, n int64) error {
		return add(&a.Checking, -n)
	})
}

func transactSavings(stub *shim.Stub, args []string) ([]byte, error) {
	return nil, change(stub, args[0], args[1], func(a *Account, n int64) error {
		return add(&a.Savings, n)
	})
}

func sendPayment(stub *shim.Stub, args []string) ([]byte, error) {
	n, err := record.Amount(args[0])
	if err != nil {
		return nil, err
	}
	return nil, between(stub, args[1], args[2], func(dest, source *Account) error {
		if err := add(&source.Checking, -n); err != nil {
			return err
		}
		return add(&dest.Checking, n)
	})
}

// amalgamate moves a customer's savings into another customer's checking account.
func amalgamate(stub *shim.Stub, args []string) ([]byte, error) {
	return nil, between(stub, args[0], args[1], func(dest, source *Account) error {
		moved := source.Savings
		source.Savings = 0
		return add(&dest.Checking, moved)
	})
}

func query(stub *shim.Stub, args []string) ([]byte, error) {
	stored, err := stub.GetState(key(args[0]))
	if err == nil && stored == nil {
		err = fmt.Errorf("%w: %s", ErrNoAccount, args[0])
	}
	return stored, err
}

// change applies one amount to one account.
func change(stub *shim.Stub, text, id string, apply func(a *Account, n int64) error) error {
	n, err := record.Amount(text)
	if err != nil {
		return err
	}
	a, err := load(stub, id)
	if err != nil {
		return err
	}
	if err := apply(a, n); err != nil {
		return err
	}
	return save(stub, a)
}

// between applies a movement of money from source to dest.
func between(stub *shim.Stub, destID, sourceID string, apply func(dest, source *Account) error) error {
	if destID == sourceID {
		return fmt.Errorf("%w: source and destination are the same account", ErrArguments)
	}
	stored, err := stub.GetMultipleStates(key(destID), key(sourceID))
	if err != nil {
		return err
	}
	dest, err := parse(destID, stored[0])
	if err != nil {
		return err
	}
	source, err := parse(sourceID, stored[1])
	if err != nil {
		return err
	}
	if err := apply(dest, source); err != nil {
		return err
	}
	return errors.Join(save(stub, source), save(stub, dest))
}

func add(balance *int64, n int64) error {
	switch {
	case n < 0 && *balance < -n:
		return fmt.Errorf("%w: %d of %d", ErrInsufficient, -n, *balance)
	case n > 0 && *balance > math.MaxInt64-n:
		return fmt.Errorf("%w: the balance would overflow", ErrArguments)
	}
	*balance += n
	return nil
}

func key(id string) string { return "account/" + id }

func load(stub *shim.Stub, id string) (*Account, error) {
	stored, err := stub.GetState(key(id))
	if err != nil {
		return nil, err
	}
	return parse(id, stored)
}

// parse reads an account; nil is none.
func parse(id string, stored []byte) (*Account, error) {
	if stored == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoAccount, id)
	}
	a := &Account{}
	if err := json.Unmarshal(stored, a); err != nil {
		return nil, fmt.Errorf("account %s is not readable: %w", id, err)
	}
	return a, nil
}

func save(stub *shim.Stub, a *Account) error {
	stored, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("account %s: %w", a.ID, err)
	}
	return stub.PutState(key(a.ID), stored)
}
