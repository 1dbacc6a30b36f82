// Package fabcoin is the coin of the Fabric paper (EuroSys 2018, section 5.1): unspent
// outputs, made by mint and moved by spend. A coin belongs to the identity that is
// named in it, and only that one spends it. Every member that may write to the channel may mint:
// this money is for measurements.
package fabcoin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim"
)

// Coin is an unspent output. It is kept under "coin/ID".
type Coin struct {
	Owner  string `json:"owner"` // as the function owner says it
	Amount int64  `json:"amount"`
}

// maxCoins bounds the inputs, and the outputs, of one transaction.
const maxCoins = 256

// New returns the contract.
func New() shim.Contract {
	return shim.Functions{
		"owner": record.Arity(0, "none", func(stub *shim.Stub, _ []string) ([]byte, error) {
			who, err := caller(stub)
			return []byte(who), err
		}),
		"coin":  record.Arity(1, "id", coin),
		"mint":  record.Arity(1, "outputs, as JSON: [{owner, amount}, …]", mint),
		"spend": record.Arity(2, "inputs, as JSON: [id, …]; outputs, as JSON: [{owner, amount}, …]", spend),
	}
}

// caller is how coins name an identity: the hash of its serialized form.
func caller(stub *shim.Stub) (string, error) {
	creator, err := stub.GetCreator()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(creator)
	return hex.EncodeToString(sum[:]), nil
}

func key(id string) string { return "coin/" + id }

func get(stub *shim.Stub, id string) (*Coin, error) {
	c := &Coin{}
	return c, record.Get(stub, key(id), "coin "+id, c)
}

func coin(stub *shim.Stub, args []string) ([]byte, error) {
	c, err := get(stub, args[0])
	if err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

// mint makes coins out of nothing and returns their ids. An output without owner is the caller's.
func mint(stub *shim.Stub, args []string) ([]byte, error) {
	outputs, _, err := parseOutputs(stub, args[0])
	if err != nil {
		return nil, err
	}
	return issue(stub, outputs)
}

// spend turns coins of the caller into others of the same sum and returns the new ids.
func spend(stub *shim.Stub, args []string) ([]byte, error) {
	var inputs []string
	if err := json.Unmarshal([]byte(args[0]), &inputs); err != nil || len(inputs) == 0 || len(inputs) > maxCoins {
		return nil, fmt.Errorf("%w: inputs %q: a JSON list of 1 to %d coin ids is accepted", record.ErrArguments, args[0], maxCoins)
	}
	outputs, owed, err := parseOutputs(stub, args[1])
	if err != nil {
		return nil, err
	}
	who, err := caller(stub)
	if err != nil {
		return nil, err
	}
	var sum int64
	seen := map[string]bool{}
	for _, id := range inputs {
		if seen[id] {
			return nil, fmt.Errorf("%w: coin %s twice", record.ErrArguments, id)
		}
		seen[id] = true
		c, err := get(stub, id)
		if err != nil {
			return nil, err
		}
		if c.Owner != who {
			return nil, fmt.Errorf("coin %s is somebody else's", id)
		}
		if sum, err = record.Sum(sum, c.Amount); err != nil {
			return nil, err
		}
	}
	if sum != owed {
		return nil, fmt.Errorf("%w: outputs of %d for inputs of %d", record.ErrInsufficient, owed, sum)
	}
	for _, id := range inputs {
		if err := stub.DelState(key(id)); err != nil {
			return nil, err
		}
	}
	return issue(stub, outputs)
}

func parseOutputs(stub *shim.Stub, text string) (outputs []Coin, sum int64, err error) {
	if err := json.Unmarshal([]byte(text), &outputs); err != nil || len(outputs) == 0 || len(outputs) > maxCoins {
		return nil, 0, fmt.Errorf("%w: outputs %q: a JSON list of 1 to %d of {owner, amount} is accepted", record.ErrArguments, text, maxCoins)
	}
	who, err := caller(stub)
	if err != nil {
		return nil, 0, err
	}
	for i := range outputs {
		if outputs[i].Amount <= 0 {
			return nil, 0, fmt.Errorf("%w: a coin of %d: an amount above 0 is accepted", record.ErrArguments, outputs[i].Amount)
		}
		if outputs[i].Owner == "" {
			outputs[i].Owner = who
		}
		if sum, err = record.Sum(sum, outputs[i].Amount); err != nil {
			return nil, 0, err
		}
	}
	return outputs, sum, nil
}

// issue writes new coins. Their ids come from the transaction's own, so they are unique.
func issue(stub *shim.Stub, outputs []Coin) ([]byte, error) {
	ids := make([]string, len(outputs))
	for i, c := range outputs {
		ids[i] = stub.GetTxID() + "." + strconv.Itoa(i)
		if err := record.Put(stub, key(ids[i]), c); err != nil {
			return nil, err
		}
	}
	return json.Marshal(ids)
}
