package zyzzyva

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// Mutants are cores that lack one rule. Nothing outside of tests can make one.
var Mutants = map[string]func(*rules){
	"quorum one too small":                       func(r *rules) { r.quorum = func(g bft.Group) int { return max(g.Quorum()-1, 1) } },
	"one replica's word for f+1":                 func(r *rules) { r.weak = func(g bft.Group) int { return max(g.Faulty(), 1) } },
	"all but one for all":                        func(r *rules) { r.all = func(g bft.Group) int { return max(len(g.Members)-1, 1) } },
	"a new view takes what one has":              func(r *rules) { r.support = func(bft.Group, int) int { return 1 } },
	"a new view takes what all have":             func(r *rules) { r.support = func(_ bft.Group, changes int) int { return changes } },
	"the longest certificate wins, as published": func(r *rules) { r.latestCertificate = false },
	"anybody orders":                             func(r *rules) { r.onlyLeader = false },
	"a second order replaces the first":          func(r *rules) { r.firstOrder = false },
	"a history with gaps":                        func(r *rules) { r.gapless = false },
	"responses without a signature":              func(r *rules) { r.signedResponses = false },
	"responses of another history count":         func(r *rules) { r.sameHistory = false },
	"what waits is not checked again":            func(r *rules) { r.recheck = false },
	"transactions without a signature":           func(r *rules) { r.signedClients = false },
	"a client's transaction stays another's":     func(r *rules) { r.adopted = false },
	"no high mark":                               func(r *rules) { r.highMark = false },
	"no low mark":                                func(r *rules) { r.lowMark = false },
	"certificates of clients without proof":      func(r *rules) { r.provenCommits = false },
	"view changes without a signature":           func(r *rules) { r.signedChanges = false },
	"a new view without its leader's signature":  func(r *rules) { r.signedNewViews = false },
	"a new view of fewer than a quorum":          func(r *rules) { r.enoughChanges = false },
	"a new view of one replica's many changes":   func(r *rules) { r.distinctChanges = false },
	"confirms without a signature":               func(r *rules) { r.signedConfirms = false },
	"a leader begins its view once more":         func(r *rules) { r.oneBeginning = false },
	"a view begins without a quorum's confirms":  func(r *rules) { r.quorumConfirms = false },
	"a restart forgets the own confirm":          func(r *rules) { r.ownConfirm = false },
	"what a view leaves out stays executed":      func(r *rules) { r.undo = false },
	"checkpoints without a signature":            func(r *rules) { r.signedCheckpoints = false },
	"checkpoints of different states":            func(r *rules) { r.sameState = false },
	"a known checkpoint by any signatures":       func(r *rules) { r.sameSignatures = false },
	"responses before they are durable":          func(r *rules) { r.durableAccept = false },
	"local commits before they are durable":      func(r *rules) { r.durableLocal = false },
	"views left without a record":                func(r *rules) { r.durableView = false },
	"confirms before they are durable":           func(r *rules) { r.durableConfirm = false },
	"old view changes count":                     func(r *rules) { r.forwardOnly = false },
	"a replica leaves a view alone":              func(r *rules) { r.accuseFirst = false },
	"a leader's two orders prove nothing":        func(r *rules) { r.proof = false },
	"timeouts stay the same":                     func(r *rules) { r.doubling = false },
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
