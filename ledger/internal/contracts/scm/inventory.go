package scm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/shim"
)

// Inventory is kept under "inventory/VENDOR/PRODUCT".
type Inventory struct {
	Stock   int64 `json:"stock"`
	Demand  int64 `json:"demand"`  // ordered from the vendor
	Ordered int64 `json:"ordered"` // by the vendor
}

// inventories are next to each other by vendor.
func inventoryKey(vendor, product int64) string {
	return fmt.Sprintf("inventory/%06d/%06d", vendor, product)
}

// inventories reads two at once: each question wakes chaincode and peer.
func inventories(stub *shim.Stub, one, other string) (a, b *Inventory, err error) {
	stored, err := stub.GetMultipleStates(one, other)
	if err != nil {
		return nil, nil, err
	}
	a, b = &Inventory{Stock: Stock}, &Inventory{Stock: Stock}
	return a, b, errors.Join(a.readFound(stored[0]), b.readFound(stored[1]))
}

// each hands out the inventories below a prefix, in order.
func each(stub *shim.Stub, prefix string, f func(vendor string, one *Inventory)) error {
	it, err := stub.GetStateByRange(prefix, strings.TrimSuffix(prefix, "/")+"0") // "0" follows "/"
	if err != nil {
		return err
	}
	for it.HasNext() {
		found, err := it.Next()
		if err != nil {
			return err
		}
		one := &Inventory{}
		if err := one.read(found.GetValue()); err != nil {
			return fmt.Errorf("%s is not readable: %w", found.GetKey(), err)
		}
		vendor, _, _ := strings.Cut(strings.TrimPrefix(found.GetKey(), "inventory/"), "/")
		f(vendor, one)
	}
	return it.Close()
}

// read takes an inventory from its JSON.
func (i *Inventory) read(value []byte) error {
	if i.readOwn(value) {
		return nil
	}
	return json.Unmarshal(value, i)
}

// readFound leaves an inventory as it is where none is stored.
func (i *Inventory) readFound(stored []byte) error {
	if len(stored) == 0 {
		return nil
	}
	return i.read(stored)
}

// readOwn reads what json.Marshal has made of an inventory, and nothing else. One global analysis reads ten thousand of
// them, and encoding/json took most of the chaincode's CPU.
func (i *Inventory) readOwn(value []byte) bool {
	stock, rest, ok1 := number(value, `{"stock":`)
	demand, rest, ok2 := number(rest, `,"demand":`)
	ordered, rest, ok3 := number(rest, `,"ordered":`)
	if !ok1 || !ok2 || !ok3 || string(rest) != "}" {
		return false
	}
	*i = Inventory{Stock: stock, Demand: demand, Ordered: ordered}
	return true
}

// number reads what stands before a number, and the number in its only form.
func number(text []byte, before string) (n int64, rest []byte, ok bool) {
	text, ok = bytes.CutPrefix(text, []byte(before))
	end := bytes.IndexAny(text, ",}")
	if !ok || end < 0 {
		return 0, nil, false
	}
	n, err := strconv.ParseInt(string(text[:end]), 10, 64)
	if err != nil {
		return 0, nil, false
	}
	digits := bytes.TrimPrefix(text[:end], []byte("-"))
	only := text[0] != '+' && (digits[0] != '0' || end == 1)
	return n, text[end:], only
}
