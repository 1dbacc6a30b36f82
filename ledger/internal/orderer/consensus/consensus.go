// Package consensus is what the ways to agree on a channel's order have in common.
package consensus

import (
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/protoutil"
)

// Why a transaction is not ordered.
var (
	// ErrNotLeader is told by a consenter that takes transactions only while it leads.
	ErrNotLeader = errors.New("this orderer is not the leader")
	// ErrOverload is told when too much waits to be ordered.
	ErrOverload = fmt.Errorf("%w: too many transactions wait to be ordered", protoutil.ErrExhausted)
)

// ErrRemoved is what a consenter's run ends with when the others have removed it from among them.
var ErrRemoved = errors.New("this orderer is no longer a consenter")
