package zyzzyva_test

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"

// asPublished is the view change as first published, which is unsafe: the longest certificate wins, whatever a later view
// has begun with, and what a view began with counts only where there is none.
var asPublished = mutanttest.New("the longest certificate wins, as published", "settle.go",
	"return c.View > other.View || c.View == other.View && c.Seq > other.Seq",
	"return c.Start == other.Start && c.Seq > other.Seq || !c.Start && other.Start || c.Start && other.Start && c.View > other.View").
	And("settle.go", "	c.cert = cert\n", "	c.cert, c.trail = cert, c.digests(cert.Seq)\n").
	And("core.go", "	cert     Certificate       // of the latest view\n", "	cert     Certificate\n	trail    []bft.Digest // of entries under cert\n").
	And("checkpoint.go", "	if c.Active && (c.Applied >= c.Stable.Seq || c.Fetching != 0) {\n		c.shed()\n	}\n", "").
	And("newview.go", "known && at == history && m.Certificate.View == latest.Certificate.View {", "known && at == history {").
	And("viewchange.go", "	m.Digests = c.digests(c.Last)\n", `	m.Digests = c.digests(c.Last)
	history, known := c.historyAt(c.cert.Seq)
	if !c.cert.Start && c.cert.Seq > c.Stable.Seq && !(known && history == c.cert.History) {
		m.Digests = c.trail
	}
`)

var mutants = []mutanttest.Mutant{
	asPublished,
	mutanttest.New("all but one for all", "settle.go",
		"case n >= len(c.Group.Members):", "case n >= max(len(c.Group.Members)-1, 1):"),
	mutanttest.New("a new view takes what one has", "newview.go",
		"support := len(changes) - c.Group.Faulty();", "support := 1;"),
	mutanttest.New("a new view takes what all have", "newview.go",
		"support := len(changes) - c.Group.Faulty();", "support := len(changes);"),
	mutanttest.New("anybody orders", "order.go",
		"	leader := c.Leader()\n", "	leader := from\n"),
	mutanttest.New("the leader answers for what others hand on", "order.go",
		"case from != leader && (", "case false && ("),
	mutanttest.New("a second order replaces the first", "order.go",
		"			c.twoOrders(m.Seq, signed{s.history, s.order}, signed{m.History, m.Signature})\n", `			c.twoOrders(m.Seq, signed{s.history, s.order}, signed{m.History, m.Signature})
			if m.Seq > c.final {
				c.truncate(m.Seq - 1)
				c.early[m.Seq] = m
				c.advance()
			}
`),
	mutanttest.New("a history with gaps", "order.go",
		"		m := c.early[c.Last+1]\n", `		m := c.early[c.Last+1]
		for seq := c.Last + 2; seq <= c.highest() && m == nil && len(c.early) > 0; seq++ {
			m = c.early[seq]
		}
`).
		And("order.go", "if m.History != Chain(c.tip, m.Entry.Digest()) {", "if false {"),
	mutanttest.New("responses without a signature", "settle.go",
		"if !c.Oracle.Verify(from, ResponseStatement(", "if false && !c.Oracle.Verify(from, ResponseStatement(").
		And("settle.go", "return c.SignedBy(c.Group, ResponseStatement(", "return true || c.SignedBy(c.Group, ResponseStatement("),
	mutanttest.New("responses of another history count", "settle.go",
		"if v.cast && v.history == s.history {", "if v.cast {").
		And("settle.go", "if history, known := c.historyAt(l.Seq); known && history == l.History {", "if _, known := c.historyAt(l.Seq); known {"),
	mutanttest.New("a checkpoint ahead counts as history", "settle.go",
		" || l.Seq > c.Last {", " {"),
	mutanttest.New("transactions without a signature", "order.go",
		"return e.Proper(", "return true || e.Proper("),
	mutanttest.New("no high mark", "order.go",
		"func (c *Core) highest() uint64 { return c.Stable.Seq + c.cfg.Window }", "func (c *Core) highest() uint64 { return 1 << 62 }"),
	mutanttest.New("a replica that fetches accepts what its log does not follow", "order.go",
		" && c.Last < max(c.Here, c.logged)+2*c.cfg.Window", ""),
	mutanttest.New("a replica orders before the configuration is in force", "order.go",
		"!c.Closed && c.Configured() && c.answers() {", "!c.Closed && c.answers() {"),
	mutanttest.New("orders from before a configuration are not checked again", "order.go",
		"	maps.DeleteFunc(c.early, func(_ uint64, m *Order) bool { return !c.proper(m.Entry) })\n", "	_ = maps.Keys(c.early)\n"),
	mutanttest.New("no low mark", "order.go",
		"if !c.Active && m.Seq <= c.Stable.Seq {", "if false {"),
	mutanttest.New("certificates of clients without proof", "settle.go",
		"if !covered && !c.proven(cert) {", "if covered && false {"),
	mutanttest.New("view changes without a signature", "viewchange.go",
		"return c.kept(m) || c.Oracle.Verify(", "return true || c.Oracle.Verify("),
	mutanttest.New("a new view without its leader's signature", "newview.go",
		"if !c.Oracle.Verify(c.Group.Leader(m.View),", "if false && !c.Oracle.Verify(c.Group.Leader(m.View),"),
	mutanttest.New("a new view of fewer than a quorum", "newview.go",
		"if len(m.Changes) < c.Quorum() || ", "if "),
	mutanttest.New("a new view of one replica's many changes", "newview.go",
		"at < 0 || seen[at] ||", "at < 0 ||"),
	mutanttest.New("confirms without a signature", "newview.go",
		"if !c.Oracle.Verify(from, ConfirmStatement(", "if false && !c.Oracle.Verify(from, ConfirmStatement("),
	mutanttest.New("a leader begins its view once more", "viewchange.go",
		"if c.newView != nil || c.planned != nil {", "if c.newView != nil {"),
	mutanttest.New("a view begins without a quorum's confirms", "newview.go",
		"if len(signatures) >= c.Quorum() {", "if true {"),
	mutanttest.New("a restart forgets the own confirm", "restore.go",
		"if c.planned != nil && c.planned.held {\n			c.castConfirm(at)", "if false {\n			c.castConfirm(at)"),
	mutanttest.New("a restart forgets what was final where a view began", "restore.go",
		"	c.final = max(c.final, r.Final)\n", ""),
	mutanttest.New("a replica led astray forgets its view", "checkpoint.go",
		"if c.Active && c.begun != nil && c.begun.Certificate.Seq <= c.Stable.Seq {", "if false {"),
	mutanttest.New("a replica led astray forgets what is decided", "checkpoint.go",
		"c.astray(max(c.final, before))", "c.astray(max(c.Applied, before))"),
	mutanttest.New("what a view leaves out stays executed", "order.go",
		"if keep < c.executed {", "if false {"),
	mutanttest.New("checkpoints without a signature", "checkpoint.go",
		"if !c.Oracle.Verify(", "if false && !c.Oracle.Verify("),
	mutanttest.New("checkpoints of different states", "checkpoint.go",
		"func(_ uint64, other vouched) bool { return other.equal(&state) }", "func(seq uint64, _ vouched) bool { return seq == state.Seq }"),
	mutanttest.New("a known checkpoint by any signatures", "viewchange.go",
		"case s.same(&c.Stable):", "case s.History == c.Stable.History && s.Checkpoint.Equal(c.Stable.Checkpoint):"),
	mutanttest.New("responses before they are durable", "order.go",
		"	c.Persist(&AcceptRecord{", "	_ = (&AcceptRecord{"),
	mutanttest.New("local commits before they are durable", "settle.go",
		"	c.Persist(&CertificateRecord{", "	_ = (&CertificateRecord{"),
	mutanttest.New("any number of transactions wait", "../pool/pool.go",
		"u.txs >= p.limits.Txs || ", ""),
	mutanttest.New("views left without a record", "viewchange.go",
		"	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: view})\n", "").
		And("newview.go", "	c.Persist(&ViewRecord{Epoch: epoch, View: view})\n", ""),
	mutanttest.New("confirms before they are durable", "newview.go",
		"	c.Persist(record)\n", ""),
	mutanttest.New("old view changes count", "newview.go",
		" || m.View < c.InView || ", " || ").
		And("viewchange.go", "	if m.View < c.InView || m.View == c.InView && c.Active {\n		return\n	}\n", "").
		And("viewchange.go", "	if old := c.changes[at]; old != nil && m.View <= old.View {\n		return\n	}\n", "").
		And("viewchange.go", "	c.join()\n	c.countChanges()\n", "	if m.View < c.InView {\n		c.leave(m.View)\n		return\n	}\n	c.join()\n	c.countChanges()\n"),
	mutanttest.New("a replica leaves a view alone", "suspect.go",
		"	c.Broadcast(&Accuse{Epoch: c.Group.Epoch, View: c.InView})\n	c.join()\n",
		"	c.Broadcast(&Accuse{Epoch: c.Group.Epoch, View: c.InView})\n	c.leave(c.InView + 1)\n"),
	mutanttest.New("what is said again is not compared", "settle.go",
		"		c.contradicts(m) // ", "		// "),
	mutanttest.New("a leader's two orders prove nothing", "suspect.go",
		"	if m.Epoch != c.Group.Epoch || m.View != c.InView || !c.Active || !c.Member() || m.Histories[0] == m.Histories[1] {\n", "	if true {\n"),
}

// clientMutants are mistakes of the client's.
var clientMutants = []mutanttest.Mutant{
	mutanttest.New("all but one for all", "client.go",
		"case n >= len(c.cfg.Group.Members):", "case n >= len(c.cfg.Group.Members)-1:"),
	mutanttest.New("a certificate of fewer than a quorum", "client.go",
		"quorum := c.cfg.Group.Quorum()", "quorum := max(c.cfg.Group.Quorum()-1, 1)").
		And("place.go", "if len(signatures) == c.cfg.Group.Quorum() {", "if len(signatures) == max(c.cfg.Group.Quorum()-1, 1) {").
		And("place.go", "if len(signatures) < c.cfg.Group.Quorum() {", "if len(signatures) < max(c.cfg.Group.Quorum()-1, 1) {").
		And("place.go", "bits.OnesCount64(s.by) >= c.cfg.Group.Quorum() {", "bits.OnesCount64(s.by) >= max(c.cfg.Group.Quorum()-1, 1) {"),
	mutanttest.New("a certificate that fewer than a quorum hold", "place.go",
		"if bits.OnesCount64(h.locals) < c.cfg.Group.Quorum() {", "if bits.OnesCount64(h.locals) < max(c.cfg.Group.Quorum()-1, 1) {"),
	mutanttest.New("one replica's word for f+1", "client.go",
		"if bits.OnesCount64(w.final) >= c.cfg.Group.Weak() {", "if bits.OnesCount64(w.final) >= max(c.cfg.Group.Faulty(), 1) {"),
	mutanttest.New("responses of another epoch count", "client.go",
		"if m.Epoch != c.cfg.Group.Epoch {", "if false {"),
	mutanttest.New("what was said in an earlier view comes back", "client.go",
		"if i := w.of(at); i >= 0 && w.said[i].in.view >= m.View {", "if false {"),
	mutanttest.New("a second history replaces the first", "place.go",
		"	if p.said[at] != nil {\n", "	if same(p.said[at]) {\n"),
	mutanttest.New("a member has a transaction in two histories", "client.go",
		"	c.takeBack(w, tx, at)\n", ""),
	mutanttest.New("responses of another history count", "place.go",
		"same := func(h *histories) bool { return h != nil && h.history == m.History }", "same := func(h *histories) bool { return h != nil }"),
	mutanttest.New("responses of another place count", "place.go",
		"p := c.places[where]", "p := c.places[position{m.Epoch, m.View, 0}]").
		And("place.go", "c.places[where] = p", "c.places[position{m.Epoch, m.View, 0}] = p").
		And("place.go", "p := c.places[position{m.Epoch, m.View, m.Seq}]", "p := c.places[position{m.Epoch, m.View, 0}]").
		And("place.go", "p := c.places[h.position];", "p := c.places[position{h.epoch, h.view, 0}];").
		And("place.go", "delete(c.places, h.position)", "delete(c.places, position{h.epoch, h.view, 0})"),
	mutanttest.New("a certificate without waiting for all", "client.go",
		"h.certAt = c.now + c.cfg.Fast", "h.certAt = c.now + 1"),
	mutanttest.New("a certificate of unverified responses", "place.go",
		"if id := c.cfg.Group.Members[at]; c.cfg.Verify(", "if id := c.cfg.Group.Members[at]; true || c.cfg.Verify("),
	mutanttest.New("a leader is accused without proof", "place.go",
		"h.ordered = c.cfg.Verify(", "h.ordered = true || c.cfg.Verify("),
	mutanttest.New("a leader is accused twice", "place.go",
		"if p.lied || other == nil ||", "if other == nil ||"),
	mutanttest.New("a certificate is held that was not made", "place.go",
		"if i >= 0 && p.said[i].cert != nil {", "if i >= 0 {"),
	mutanttest.New("a local commit of another history counts", "place.go",
		"func(h *histories) bool { return h != nil && h.history == m.History })", "func(h *histories) bool { return h != nil })"),
	mutanttest.New("a certificate is for what few have there", "place.go",
		"if s.in == h && bits.OnesCount64(s.by) >= c.cfg.Group.Quorum() {", "if s.in == h {"),
	mutanttest.New("only the leader is asked again", "client.go",
		"	c.toAll(&bft.Request{Txs: [][]byte{w.tx}})\n",
		"	c.out.Send = append(c.out.Send, bft.Outgoing{To: c.Leader(), Message: &bft.Request{Txs: [][]byte{w.tx}}})\n"),
	mutanttest.New("all are asked again as often", "client.go",
		"	w.pause = min(2*w.pause, c.cfg.MaxResend)\n", ""),
	mutanttest.New("a certificate is given once", "client.go",
		"if s.in.cert != nil {", "if false {"),
}
