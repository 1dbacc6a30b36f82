package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// rules are what the protocol's safety and liveness rest on, each under a name. A core always has sound's; tests alter
// one at a time, to show that they would find a core without it.
type rules struct {
	quorum  func(bft.Group) int // replicas whose word decides
	weak    func(bft.Group) int // of which one is a correct replica
	all     func(bft.Group) int // equal histories that decide without a certificate
	support func(g bft.Group, changes int) int

	// latestCertificate has a certificate of a later view count for more than a longer one of an earlier view, and the
	// history that a view begins with count as one. Zyzzyva as first published lacks it.
	latestCertificate bool

	onlyLeader        bool // orders are the leader's
	firstOrder        bool // of two orders for a place the first counts
	gapless           bool // a history is accepted entry by entry
	signedResponses   bool // the signatures under a certificate are verified
	sameHistory       bool // responses count for the history that they name
	signedClients     bool // an entry's transactions are checked
	recheck           bool // what waits is checked again in each epoch
	adopted           bool // a client's transaction is brought to all, whoever else has brought it before
	highMark          bool // what is beyond the window is dropped
	lowMark           bool // so is what is stable already, before a view begins
	provenCommits     bool // certificates that clients bring are verified
	signedChanges     bool // the signatures of view changes are verified
	signedNewViews    bool // a new view is the word of its leader
	enoughChanges     bool // a new view takes a quorum of them
	distinctChanges   bool // of different replicas
	signedConfirms    bool // the signatures of confirms are verified
	oneBeginning      bool // a leader that has confirmed how its view begins does not begin it otherwise
	quorumConfirms    bool // a view begins once a quorum confirms its history
	ownConfirm        bool // a replica's own confirm counts after a restart
	staysInView       bool // what is fetched does not make a replica forget its view's beginning
	undo              bool // what a new view leaves out is taken back
	signedCheckpoints bool // the signatures of checkpoints are verified
	sameState         bool // checkpoints count together only where they state the same
	sameSignatures    bool // a checkpoint that is known is believed for the signatures that are known
	durableAccept     bool // what a response promises is recorded
	durableLocal      bool // so is the certificate that a local commit promises
	durableView       bool // and that a view was left
	durableConfirm    bool // and what was confirmed
	forwardOnly       bool // views never go back
	accuseFirst       bool // a replica leaves a view together with f others
	proof             bool // a leader's two orders for one place end its view
	doubling          bool // timeouts double
}

func sound() rules {
	return rules{
		quorum: bft.Group.Quorum, weak: bft.Group.Weak, all: func(g bft.Group) int { return len(g.Members) },
		support:           func(g bft.Group, changes int) int { return changes - g.Faulty() },
		latestCertificate: true, onlyLeader: true, firstOrder: true, gapless: true, signedResponses: true, sameHistory: true,
		signedClients: true, recheck: true, adopted: true, highMark: true, lowMark: true, provenCommits: true, signedChanges: true,
		signedNewViews: true, enoughChanges: true, distinctChanges: true, signedConfirms: true, oneBeginning: true,
		quorumConfirms: true, ownConfirm: true, staysInView: true, undo: true, signedCheckpoints: true, sameState: true, sameSignatures: true, durableAccept: true,
		durableLocal: true, durableView: true, durableConfirm: true, forwardOnly: true, accuseFirst: true, proof: true,
		doubling: true,
	}
}
