package sim

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// oracle answers a node's core. Nobody but the oracle of a replica can make its signatures.
type oracle struct{ n *node }

// Sign implements bft.Oracle.
func (o oracle) Sign(data []byte) []byte { return sign(o.n.id, data) }

// Verify implements bft.Oracle.
func (o oracle) Verify(by bft.ID, data, signature []byte) bool {
	return string(signature) == string(sign(by, data))
}

// Check implements bft.Oracle.
func (o oracle) Check(tx []byte) (config, ok bool) {
	return len(tx) > 0 && tx[0] == '=', o.n.w.submitted[bft.TxDigest(tx)] != nil
}

// Known implements bft.Oracle.
func (o oracle) Known(tx bft.Digest) bool { return o.n.txs[tx] != 0 }

// sign is FNV-1a with a secret, which is cheap; liars in here do not look for collisions.
func sign(id bft.ID, data []byte) []byte {
	h := uint64(14695981039346656037) ^ id*0x9e3779b97f4a7c15
	for ; len(data) >= 8; data = data[8:] {
		h = (h ^ binary.LittleEndian.Uint64(data)) * 1099511628211
		h ^= h >> 29
	}
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 32
	return binary.BigEndian.AppendUint64(nil, h*0x9e3779b97f4a7c15)
}

// configOf is a transaction that makes these the members.
func configOf(number int, members []bft.ID) []byte {
	text := fmt.Sprintf("=%d", number)
	for _, id := range members {
		text += fmt.Sprintf(" %d", id)
	}
	return []byte(text)
}

// membersOf reads it; nobody: they stay as they are.
func membersOf(tx []byte, before []bft.ID) (members []bft.ID) {
	for _, word := range strings.Fields(string(tx))[1:] {
		id, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return before
		}
		members = append(members, id)
	}
	return members
}

// spell shows a message in a trace.
func spell(m bft.Message) string {
	text := fmt.Sprintf("%+v", m)
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return text
}
