package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// clientRules are what a client's belief rests on, each under a name, as rules are for a core.
type clientRules struct {
	all    func(bft.Group) int // equal histories that decide without a certificate
	quorum func(bft.Group) int // responses that a certificate takes
	held   func(bft.Group) int // replicas that hold it
	weak   func(bft.Group) int // that say that a transaction is final

	ownEpoch        bool // responses of another epoch do not count
	latestView      bool // of several views that a member answers in the latest counts
	firstSaid       bool // of what it says at a place the first counts
	oneHistory      bool // a transaction is in one history of a member's
	sameHistory     bool // responses count together for the history that they name
	samePlace       bool // and for the place
	patience        bool // a certificate waits for all to answer
	signedResponses bool // the signatures under a certificate are verified
	signedOrders    bool // so are those by which a leader is accused
	toldOnce        bool // a leader is accused once for a place
	certificate     bool // nobody holds a certificate that was not made
	sameLocal       bool // a local commit counts for the history that it names
	there           bool // a certificate is for transactions that a quorum has in that history
	asksAll         bool // what waits long is asked of all
	doubling        bool // ever less often
	bringsAgain     bool // and its certificate is given to them again
}

func soundClient() clientRules {
	return clientRules{
		all: func(g bft.Group) int { return len(g.Members) }, quorum: bft.Group.Quorum, held: bft.Group.Quorum, weak: bft.Group.Weak,
		ownEpoch: true, latestView: true, firstSaid: true, oneHistory: true, sameHistory: true, samePlace: true, patience: true,
		signedResponses: true, signedOrders: true, toldOnce: true, certificate: true, sameLocal: true, there: true,
		asksAll: true, doubling: true, bringsAgain: true,
	}
}
