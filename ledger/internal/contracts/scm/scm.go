// Package scm is the supply chain of the StreamChain paper: vendors that order products from each other by contract.
//
// The paper names the tables (contracts, orders, inventories), the transactions and the two kinds of analytics, and
// leaves their content open. Here a contract is of a seller, a buyer and a product, and comes with a standing order of
// the same id. An inventory is of a vendor and a product: its stock, what was ordered from it, and what it ordered.
// Days of supply are the days for which a vendor's stock serves what is ordered from it, where orders are for thirty
// days. The bullwhip coefficient is the variance, over all vendors, of what they order, by that of what is ordered from
// them; by law of both sums being equal, this is also the ratio of the variances over the means. All are whole numbers,
// so that a database gives the same answers (package load has the same in SQL).
package scm

import (
	"fmt"
	"math/big"
	"strconv"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim"
)

const (
	// Stock is what an inventory holds from the beginning.
	Stock = 10_000
	// Days is for how long orders are.
	Days = 30
	// Unit is the part in which a coefficient is told: thousandths.
	Unit = 1000
)

// Contract is kept under "contract/ID".
type Contract struct {
	Seller  int64 `json:"seller"`
	Buyer   int64 `json:"buyer"`
	Product int64 `json:"product"`
}

// Order is kept under "order/ID".
type Order struct {
	Contract string `json:"contract"`
	Quantity int64  `json:"quantity"`
}

// New returns the contract.
func New() shim.Contract {
	return shim.Functions{
		"create_contract": record.Arity(5, "id, seller, buyer, product, quantity of its standing order", createContract),
		"place_order":     record.Arity(3, "id, contract, quantity", placeOrder),
		"update_order":    record.Arity(2, "id, quantity", updateOrder),
		"days_of_supply":  record.Arity(1, "vendor", daysOfSupply),
		"bullwhip":        record.Arity(0, "nothing", bullwhip),
	}
}

func contractKey(id string) string { return "contract/" + id }
func orderKey(id string) string    { return "order/" + id }

func createContract(stub *shim.Stub, args []string) ([]byte, error) {
	numbers := make([]int64, 4)
	for i := range numbers {
		var err error
		if numbers[i], err = record.Amount(args[1+i]); err != nil {
			return nil, err
		}
	}
	c := &Contract{Seller: numbers[0], Buyer: numbers[1], Product: numbers[2]}
	if c.Seller == c.Buyer {
		return nil, fmt.Errorf("%w: vendor %d cannot order from itself", record.ErrArguments, c.Seller)
	}
	if err := record.MustBeFree(stub, contractKey(args[0]), "contract "+args[0]); err != nil {
		return nil, err
	}
	if err := record.Put(stub, contractKey(args[0]), c); err != nil {
		return nil, err
	}
	return order(stub, args[0], args[0], c, numbers[3])
}

func placeOrder(stub *shim.Stub, args []string) ([]byte, error) {
	quantity, err := record.Amount(args[2])
	if err != nil {
		return nil, err
	}
	c := &Contract{}
	if err := record.Get(stub, contractKey(args[1]), "contract "+args[1], c); err != nil {
		return nil, err
	}
	return order(stub, args[0], args[1], c, quantity)
}

// order writes a new order and returns the demand for the product that its seller has then.
func order(stub *shim.Stub, id, contract string, c *Contract, quantity int64) ([]byte, error) {
	if err := record.MustBeFree(stub, orderKey(id), "order "+id); err != nil {
		return nil, err
	}
	if err := record.Put(stub, orderKey(id), &Order{Contract: contract, Quantity: quantity}); err != nil {
		return nil, err
	}
	return move(stub, c, quantity)
}

func updateOrder(stub *shim.Stub, args []string) ([]byte, error) {
	quantity, err := record.Amount(args[1])
	if err != nil {
		return nil, err
	}
	o, c := &Order{}, &Contract{}
	if err := record.Get(stub, orderKey(args[0]), "order "+args[0], o); err != nil {
		return nil, err
	}
	if err := record.Get(stub, contractKey(o.Contract), "contract "+o.Contract, c); err != nil {
		return nil, err
	}
	more := quantity - o.Quantity
	o.Quantity = quantity
	if err := record.Put(stub, orderKey(args[0]), o); err != nil {
		return nil, err
	}
	return move(stub, c, more)
}

// move changes what both sides' inventories say of a contract's product.
func move(stub *shim.Stub, c *Contract, quantity int64) ([]byte, error) {
	sold, bought, err := inventories(stub, inventoryKey(c.Seller, c.Product), inventoryKey(c.Buyer, c.Product))
	if err != nil {
		return nil, err
	}
	sold.Demand += quantity
	bought.Ordered += quantity
	if err := record.Put(stub, inventoryKey(c.Seller, c.Product), sold); err != nil {
		return nil, err
	}
	return strconv.AppendInt(nil, sold.Demand, 10), record.Put(stub, inventoryKey(c.Buyer, c.Product), bought)
}

// daysOfSupply is -1 where nothing is ordered from the vendor.
func daysOfSupply(stub *shim.Stub, args []string) ([]byte, error) {
	vendor, err := record.Amount(args[0])
	if err != nil {
		return nil, err
	}
	var stock, demand int64
	prefix := fmt.Sprintf("inventory/%06d/", vendor)
	err = each(stub, prefix, func(_ string, one *Inventory) {
		stock, demand = stock+one.Stock, demand+one.Demand
	})
	if err != nil {
		return nil, err
	}
	days := int64(-1)
	if demand > 0 {
		days = stock * Days / demand
	}
	return strconv.AppendInt(nil, days, 10), nil
}

// bullwhip reads all inventories, so that a change of any of them is in conflict with it. It is 0 where all vendors are
// ordered from alike.
func bullwhip(stub *shim.Stub, _ []string) ([]byte, error) {
	var demand, ordered spread
	of := ""
	err := each(stub, "inventory/", func(vendor string, one *Inventory) {
		if vendor != of {
			demand.next()
			ordered.next()
			of = vendor
		}
		demand.current += one.Demand
		ordered.current += one.Ordered
	})
	if err != nil {
		return nil, err
	}
	demand.next()
	ordered.next()
	below := demand.variance()
	if below.Sign() == 0 {
		return []byte("0"), nil
	}
	above := ordered.variance()
	return []byte(above.Mul(above, big.NewInt(Unit)).Div(above, below).String()), nil
}

// spread adds up the vendors' numbers and their squares.
type spread struct {
	current     int64
	count       int64
	sum, square big.Int
	begun       bool
}

// next closes a vendor's number.
func (s *spread) next() {
	if s.begun {
		one := big.NewInt(s.current)
		s.count++
		s.sum.Add(&s.sum, one)
		s.square.Add(&s.square, one.Mul(one, one))
	}
	s.begun, s.current = true, 0
}

// variance is n^2 times the variance.
func (s *spread) variance() *big.Int {
	found := new(big.Int).Mul(big.NewInt(s.count), &s.square)
	return found.Sub(found, new(big.Int).Mul(&s.sum, &s.sum))
}
