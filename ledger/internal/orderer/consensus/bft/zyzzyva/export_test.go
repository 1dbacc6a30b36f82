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
	"a replica led astray forgets its view":      func(r *rules) { r.staysInView = false },
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
	return scripttest.ThatNotices(t, scripts(mutated(name), soundClient()))
}

// ClientMutants are clients that lack one rule.
var ClientMutants = map[string]func(*clientRules){
	"all but one for all":                         func(r *clientRules) { r.all = func(g bft.Group) int { return len(g.Members) - 1 } },
	"a certificate of fewer than a quorum":        func(r *clientRules) { r.quorum = func(g bft.Group) int { return max(g.Quorum()-1, 1) } },
	"a certificate that fewer than a quorum hold": func(r *clientRules) { r.held = func(g bft.Group) int { return max(g.Quorum()-1, 1) } },
	"one replica's word for f+1":                  func(r *clientRules) { r.weak = func(g bft.Group) int { return max(g.Faulty(), 1) } },
	"responses of another epoch count":            func(r *clientRules) { r.ownEpoch = false },
	"what was said in an earlier view comes back": func(r *clientRules) { r.latestView = false },
	"a second history replaces the first":         func(r *clientRules) { r.firstSaid = false },
	"a member has a transaction in two histories": func(r *clientRules) { r.oneHistory = false },
	"responses of another history count":          func(r *clientRules) { r.sameHistory = false },
	"responses of another place count":            func(r *clientRules) { r.samePlace = false },
	"a certificate without waiting for all":       func(r *clientRules) { r.patience = false },
	"a certificate of unverified responses":       func(r *clientRules) { r.signedResponses = false },
	"a leader is accused without proof":           func(r *clientRules) { r.signedOrders = false },
	"a leader is accused twice":                   func(r *clientRules) { r.toldOnce = false },
	"a certificate is held that was not made":     func(r *clientRules) { r.certificate = false },
	"a local commit of another history counts":    func(r *clientRules) { r.sameLocal = false },
	"a certificate is for what few have there":    func(r *clientRules) { r.there = false },
	"only the leader is asked again":              func(r *clientRules) { r.asksAll = false },
	"all are asked again as often":                func(r *clientRules) { r.doubling = false },
	"a certificate is given once":                 func(r *clientRules) { r.bringsAgain = false },
}

// NewClientMutant makes a client that lacks a rule.
func NewClientMutant(name string, cfg ClientConfig) *Client {
	return newClient(cfg, mutatedClient(name))
}

func mutatedClient(name string) clientRules {
	r := soundClient()
	ClientMutants[name](&r)
	return r
}

// ScriptThatNoticesClient is one whose output is another with the mutant.
func ScriptThatNoticesClient(t *testing.T, name string) string {
	return scripttest.ThatNotices(t, scripts(sound(), mutatedClient(name)))
}
