package pbft

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// Mutants are cores that lack one rule. Nothing outside of tests can make one.
var Mutants = map[string]func(*rules){
	"quorum one too small":                      func(r *rules) { r.quorum = func(g bft.Group) int { return max(g.Quorum()-1, 1) } },
	"one replica's word for f+1":                func(r *rules) { r.weak = bft.Group.Faulty },
	"anybody proposes":                          func(r *rules) { r.onlyLeader = false },
	"a second proposal replaces the first":      func(r *rules) { r.firstProposal = false },
	"votes without a signature":                 func(r *rules) { r.signedVotes = false },
	"votes for another digest count":            func(r *rules) { r.sameDigest = false },
	"a vote counts as often as it comes":        func(r *rules) { r.onceEach = false },
	"what waits is not checked again":           func(r *rules) { r.recheck = false },
	"transactions without a signature":          func(r *rules) { r.signedClients = false },
	"no low mark":                               func(r *rules) { r.lowMark = false },
	"no high mark":                              func(r *rules) { r.highMark = false },
	"entries out of order":                      func(r *rules) { r.inOrder = false },
	"view changes without a signature":          func(r *rules) { r.signedChanges = false },
	"prepared without proof":                    func(r *rules) { r.provenPrepared = false },
	"a new view without its leader's signature": func(r *rules) { r.signedNewViews = false },
	"a new view of fewer than a quorum":         func(r *rules) { r.enoughChanges = false },
	"a new view of one replica's many changes":  func(r *rules) { r.distinctChanges = false },
	"the oldest prepared wins":                  func(r *rules) { r.newestPrepared = false },
	"a fetched entry is not compared":           func(r *rules) { r.bodyOfDigest = false },
	"checkpoints without a signature":           func(r *rules) { r.signedCheckpoints = false },
	"checkpoints of different states":           func(r *rules) { r.sameState = false },
	"members change before it is stable":        func(r *rules) { r.stableFirst = false },
	"votes before they are durable":             func(r *rules) { r.durableAccept = false },
	"commits while unvoted":                     func(r *rules) { r.voteFirst = false },
	"commits before they are durable":           func(r *rules) { r.durablePrepared = false },
	"views left without a record":               func(r *rules) { r.durableView = false },
	"old view changes count":                    func(r *rules) { r.forwardOnly = false },
	"timeouts stay the same":                    func(r *rules) { r.doubling = false },
}

// NewMutant starts a replica that lacks a rule.
func NewMutant(name string, cfg Config, oracle bft.Oracle, state bft.State, records []bft.Record) *Core {
	return newCore(cfg, oracle, state, records, mutated(name))
}

func mutated(name string) rules {
	r := sound()
	Mutants[name](&r)
	return r
}

// ScriptThatNotices is one whose output is another with the mutant.
func ScriptThatNotices(t *testing.T, name string) string {
	return scripttest.ThatNotices(t, scripts(mutated(name)))
}
