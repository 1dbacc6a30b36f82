// Package record is what the bundled contracts share: checked arguments, and JSON
// records below a key.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/qioi/qioi/ledger/internal/shim"
)

// What a transaction can be refused for.
var (
	ErrArguments    = errors.New("wrong arguments")
	ErrNotFound     = errors.New("does not exist")
	ErrExists       = errors.New("exists already")
	ErrInsufficient = errors.New("insufficient funds")
)

// Arity makes a function insist on its number of arguments.
func Arity(n int, names string, f shim.Function) shim.Function {
	return func(stub *shim.Stub, args []string) ([]byte, error) {
		if len(args) != n {
			return nil, fmt.Errorf("%w: %d (%s) are taken, %d came", ErrArguments, n, names, len(args))
		}
		return f(stub, args)
	}
}

// Amount reads a whole number that is not negative.
func Amount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %q is not a whole amount from 0 to %d", ErrArguments, text, int64(math.MaxInt64))
	}
	return n, nil
}

// Sum adds two amounts; it errs where the result cannot be kept.
func Sum(a, b int64) (int64, error) {
	if a > math.MaxInt64-b {
		return 0, fmt.Errorf("%w: the sum would overflow", ErrArguments)
	}
	return a + b, nil
}

// Get reads the record at a key, which must be there; what names it to people.
func Get(stub *shim.Stub, key, what string, into any) error {
	stored, err := stub.GetState(key)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		return fmt.Errorf("%s %w", what, ErrNotFound)
	}
	if err := json.Unmarshal(stored, into); err != nil {
		return fmt.Errorf("%s is not readable: %w", what, err)
	}
	return nil
}

// MustBeFree refuses a key that is taken. Its read also makes two creations of one key
// conflict instead of overwrite.
func MustBeFree(stub *shim.Stub, key, what string) error {
	if key == "" {
		return fmt.Errorf("%w: an empty name", ErrArguments)
	}
	stored, err := stub.GetState(key)
	if err == nil && len(stored) > 0 {
		err = fmt.Errorf("%s %w", what, ErrExists)
	}
	return err
}

// Put writes a record.
func Put(stub *shim.Stub, key string, value any) error {
	stored, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return stub.PutState(key, stored)
}
