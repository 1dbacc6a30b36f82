//go:build !amd64 || purego

package p256

import (
	"crypto/ecdsa"
	"math/big"
)

// Table is never made on this processor.
type Table struct{}

// New gives nil: there is no table on this processor.
func New(*ecdsa.PublicKey) *Table { return nil }

// Verify is never called on this processor.
func (*Table) Verify([]byte, *big.Int, *big.Int) bool { panic("p256: no table on this processor") }
