// Package costtest counts what a replica verifies of a message: its sender may lie, and send one after the other.
package costtest

import (
	"bytes"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// Forged is a signature that an Oracle does not believe.
var Forged = []byte("forged")

// Oracle believes all but forged signatures, and counts what it verifies. A transaction "=" is a configuration.
type Oracle struct {
	scripttest.Trusting
	Verified int
}

// Verify implements bft.Oracle.
func (o *Oracle) Verify(_ bft.ID, _, signature []byte) bool {
	o.Verified++
	return !bytes.Equal(signature, Forged)
}

// Check implements bft.Oracle.
func (*Oracle) Check(tx []byte) (config, ok bool) { return string(tx) == "=", true }

// Costs is how many signatures a replica, whose oracle this is, verifies of a message.
func (o *Oracle) Costs(core bft.Core, from bft.ID, m bft.Message) int {
	before := o.Verified
	core.Step(1, bft.Received{From: from, Message: m})
	return o.Verified - before
}

// Quorum is the signature of each of a quorum of four.
func Quorum(text string) (signatures []bft.Signature) {
	for _, id := range []bft.ID{1, 3, 4} {
		signatures = append(signatures, bft.Signature{By: id, Bytes: []byte(text)})
	}
	return signatures
}
