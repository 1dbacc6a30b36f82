package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// Mutants are cores that lack one rule, by its name.
var Mutants = map[string]func(*rules){}

// NewMutant starts a replica whose rules are altered.
func NewMutant(alter func(*rules), cfg Config, oracle bft.Oracle, state bft.State, records []bft.Record) *Core {
	r := sound()
	alter(&r)
	return newCore(cfg, oracle, state, records, r)
}
