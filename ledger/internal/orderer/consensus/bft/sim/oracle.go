package sim

import (
	"encoding/binary"
	"fmt"
	"math"
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
	return len(tx) > 0 && tx[0] == '=', o.n.w.submitted[bft.TxDigest(tx)] != nil && o.n.w.holds(tx, o.n.configs)
}

// Mark implements bft.Oracle.
func (o oracle) Mark(tx []byte) bool { return len(tx) > 0 && tx[0] == '|' }

// Known implements bft.Oracle.
func (o oracle) Known(tx bft.Digest) bool { return o.n.txs[tx] != 0 || o.n.coming[tx] }

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

// rivalOf is another one that is to follow the same configuration.
func rivalOf(number int, members []bft.ID) []byte {
	first, rest, _ := strings.Cut(string(configOf(number, members)), " ")
	return []byte(first + "' " + rest)
}

// outdatedBy is a transaction that holds until there are so many configurations.
func outdatedBy(number, configs int) []byte { return fmt.Appendf(nil, "old%d<%d", number, configs) }

// holds reports whether a transaction may be ordered after so many configurations.
func (w *world) holds(tx []byte, configs int) bool {
	since, until := span(tx)
	return !w.plan.rivals || since <= configs && configs < until
}

// span is from how many configurations on, and until how many, a transaction holds. A configuration follows only the one
// before it.
func span(tx []byte) (since, until int) {
	text := string(tx)
	if _, limit, is := strings.Cut(text, "<"); is {
		return 0, number(limit)
	}
	if name, is := strings.CutPrefix(text, "="); is {
		name, _, _ = strings.Cut(name, " ")
		since = number(strings.TrimSuffix(name, "'"))
		return since, since + 1
	}
	return 0, math.MaxInt
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err) // the plan has spelt it
	}
	return n
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
