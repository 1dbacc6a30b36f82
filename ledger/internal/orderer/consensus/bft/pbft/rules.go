package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// rules are what the protocol's safety and liveness rest on, each under a name. A core always has
// sound's; tests alter one at a time, to show that they would find a core without it.
type rules struct {
	quorum func(bft.Group) int // votes that decide
	weak   func(bft.Group) int // of which one is a correct replica's

	onlyLeader        bool // proposals come from the leader of the view
	firstProposal     bool // of two proposals for a sequence number the first counts
	signedVotes       bool // a vote's signature is verified
	sameDigest        bool // votes count for the digest that they name
	onceEach          bool // a replica's vote counts once
	signedClients     bool // a proposal's transactions are checked
	lowMark           bool // messages for what is forgotten are dropped
	recheck           bool // what waits is checked again in each epoch
	highMark          bool // so are those beyond the window
	inOrder           bool // entries are applied without gaps
	signedChanges     bool // the signatures of view changes are verified
	provenPrepared    bool // so are those of what they hold prepared
	signedNewViews    bool // a new view is the word of its leader
	enoughChanges     bool // a new view takes a quorum of them
	distinctChanges   bool // of different replicas
	newestPrepared    bool // of what was prepared at a sequence number the latest view's counts
	bodyOfDigest      bool // a fetched entry is that of the digest
	signedCheckpoints bool // the signatures of checkpoints are verified
	sameState         bool // checkpoints count together only where they state the same
	stableFirst       bool // a new membership counts after a stable checkpoint
	durableAccept     bool // a vote is recorded
	voteFirst         bool // it commits to nothing that it has not voted for
	durablePrepared   bool // so is what a commit promises
	durableView       bool // and that a view was left
	forwardOnly       bool // views never go back
	doubling          bool // timeouts double
}

func sound() rules {
	return rules{
		quorum: bft.Group.Quorum, weak: bft.Group.Weak,
		onlyLeader: true, firstProposal: true, signedVotes: true, sameDigest: true, onceEach: true, signedClients: true, recheck: true,
		lowMark: true, highMark: true, inOrder: true, signedChanges: true, provenPrepared: true, signedNewViews: true,
		enoughChanges: true, distinctChanges: true, newestPrepared: true, bodyOfDigest: true, signedCheckpoints: true,
		sameState: true, stableFirst: true, durableAccept: true, voteFirst: true, durablePrepared: true, durableView: true, forwardOnly: true,
		doubling: true,
	}
}
