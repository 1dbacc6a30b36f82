package pbft_test

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"

var mutants = []mutanttest.Mutant{
	mutanttest.New("anybody proposes", "order.go",
		"	if from != c.Leader() {\n		return\n	}\n", ""),
	mutanttest.New("a second proposal replaces the first", "order.go",
		"if s == nil || s.accepted {", "if s == nil {").
		And("order.go", "if s.prepares[at].cast && s.prepares[at].digest != digest {", "if false {"),
	mutanttest.New("votes without a signature", "order.go",
		"if votes && !still && !c.Oracle.Verify(", "if false && !c.Oracle.Verify(").
		And("order.go", "if !s.unvoted && !c.Oracle.Verify(", "if false && !c.Oracle.Verify(").
		And("spare.go", "if !c.Oracle.Verify(", "if false && !c.Oracle.Verify("),
	mutanttest.New("votes for another digest count", "order.go",
		"if v.cast && v.digest == s.digest {", "if v.cast {").
		And("order.go", "if v.cast && v.view == s.commits[i].view && v.digest == s.commits[i].digest {", "if v.cast {"),
	mutanttest.New("a vote counts as often as it comes", "order.go",
		"	prepares []vote // by member, of the current view\n", "	prepares []vote\n	again int\n").
		And("order.go", "if s.preparedIn(c.InView) {", "if false {").
		And("order.go", "	if s.prepares[at].cast {\n", "	if s.prepares[at].cast {\n		s.again++\n		c.checkPrepared(m.Seq, s)\n").
		And("order.go", "if len(signatures) < c.Quorum() {", "if len(signatures)+s.again < c.Quorum() {").
		And("order.go", "old.cast && m.View <= old.view {\n", "old.cast && m.View <= old.view {\n		s.again++\n		c.checkDecided(m.Seq, s)\n").
		And("order.go", "if votes >= c.Quorum() {", "if votes+s.again >= c.Quorum() {"),
	mutanttest.New("transactions without a signature", "order.go",
		"return e.Proper(", "return true || e.Proper("),
	mutanttest.New("no low mark", "order.go",
		"seq == 0 || seq <= c.Floor() ||", "seq == 0 ||"),
	mutanttest.New("no high mark", "order.go",
		" || seq > c.Stable.Seq+c.cfg.Window {\n		return nil", " {\n		return nil"),
	mutanttest.New("entries out of order", "apply.go",
		"		seq := c.Applied + 1\n", "		seq := c.Applied + 1\n		for seq < c.Last && !c.ready(seq) {\n			seq++\n		}\n"),
	mutanttest.New("view changes without a signature", "viewchange.go",
		"if !c.Oracle.Verify(m.Replica,", "if false && !c.Oracle.Verify(m.Replica,"),
	mutanttest.New("prepared without proof", "viewchange.go",
		"if !c.SignedBy(c.Group, PrepareStatement(", "if false && !c.SignedBy(c.Group, PrepareStatement("),
	mutanttest.New("a new view without its leader's signature", "newview.go",
		"if !c.Oracle.Verify(", "if false && !c.Oracle.Verify("),
	mutanttest.New("a new view of fewer than a quorum", "newview.go",
		"if len(m.Changes) < c.Quorum() || ", "if "),
	mutanttest.New("a new view of one replica's many changes", "newview.go",
		"at < 0 || seen[at] ||", "at < 0 ||"),
	mutanttest.New("the oldest prepared wins", "newview.go",
		"p.View > old.view", "p.View <= old.view"),
	mutanttest.New("a fetched entry is not compared", "status.go",
		"s.decidedEntry == nil && s.decision == digest {", "s.decidedEntry == nil {").
		And("status.go", "s.entry == nil && s.digest == digest {", "s.entry == nil {"),
	mutanttest.New("checkpoints without a signature", "checkpoint.go",
		"if !c.Oracle.Verify(", "if false && !c.Oracle.Verify("),
	mutanttest.New("checkpoints of different states", "checkpoint.go",
		"func(_ uint64, other bft.Checkpoint) bool { return other.Equal(cp) }", "func(seq uint64, _ bft.Checkpoint) bool { return seq == cp.Seq }"),
	mutanttest.New("members change before it is stable", "checkpoint.go",
		"		c.checkStable(cp)\n	}\n", "		c.checkStable(cp)\n	}\n	if cp.Ends() && c.Closed {\n		c.Stable = bft.Certificate{Checkpoint: cp}\n		c.enter()\n	}\n"),
	mutanttest.New("votes before they are durable", "order.go",
		"	c.Persist(&AcceptRecord{", "	_ = (&AcceptRecord{"),
	mutanttest.New("commits while unvoted", "order.go",
		" || s.preparedIn(c.InView) || s.unvoted {", " || s.preparedIn(c.InView) {"),
	mutanttest.New("commits before they are durable", "order.go",
		"	c.Persist(&PreparedRecord{", "	_ = (&PreparedRecord{"),
	mutanttest.New("any number of transactions wait", "../pool/pool.go",
		"u.txs >= p.limits.Txs || ", ""),
	mutanttest.New("views left without a record", "viewchange.go",
		"	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: view})\n", ""),
	mutanttest.New("old view changes count", "newview.go",
		" || m.View < c.InView || ", " || ").
		And("viewchange.go", "	if m.View < c.InView || m.View == c.InView && c.Active {\n		return\n	}\n", "").
		And("viewchange.go", "	if old := c.changes[at]; old != nil && m.View <= old.View {\n		return\n	}\n", "").
		And("viewchange.go", "	c.join()\n	c.countChanges()\n", "	if m.View < c.InView {\n		c.leave(m.View)\n		return\n	}\n	c.join()\n	c.countChanges()\n"),
}
