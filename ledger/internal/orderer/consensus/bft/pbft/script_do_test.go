package pbft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"crypto/sha256"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

func (s *script) do(d *datadriven.TestData) string {
	id, kind := 0, ""
	var by time.Duration
	d.MaybeScanArgs(s.t, "node", &id)
	if d.HasArg("by") {
		var text string
		d.ScanArgs(s.t, "by", &text)
		var err error
		by, err = time.ParseDuration(text)
		require.NoError(s.t, err)
	}
	d.MaybeScanArgs(s.t, "kind", &kind)
	var p *replica
	if id > 0 {
		p = s.replicas[id-1]
	}
	switch d.Cmd {
	case "new", "show":
		if d.Cmd == "show" {
			s.show()
		}
	case "submit":
		for _, tx := range strings.Split(d.Input, "\n") {
			p.step(bft.Submit{Tx: []byte(tx)})
		}
	case "deliver":
		if len(d.CmdArgs) > 0 {
			s.deliverOnce(s.pick(d))
		} else {
			s.deliver()
		}
	case "drop":
		s.pick(d)
	case "shuffle":
		slices.Reverse(s.mail)
	case "mail":
		for _, m := range s.mail {
			s.say("%d -> %d %s", m.from, m.out.To, m.out.Message.Kind())
		}
	case "advance", "run":
		s.pass(by, d.Cmd == "run")
	case "isolate":
		s.lost[bft.ID(id)] = true
	case "heal":
		clear(s.lost)
	case "hold":
		p.holds = true
	case "flush":
		held := p.held
		p.holds, p.held = false, nil
		for _, e := range held {
			p.release(e)
		}
	case "crash":
		p.core, p.holds, p.held = nil, false, nil
		s.mail = slices.DeleteFunc(s.mail, func(m mail) bool { return m.out.To == p.id })
	case "restart":
		p.start()
	case "lie":
		for _, line := range strings.Split(d.Input, "\n") {
			s.lie(p, line)
		}
	case "replay":
		s.mail = append(s.mail, s.sent...)
	default:
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
	return s.changes()
}

// pick takes the messages out of the mail that the arguments name.
func (s *script) pick(d *datadriven.TestData) (picked []mail) {
	var from, to int
	var kind string
	d.MaybeScanArgs(s.t, "from", &from)
	d.MaybeScanArgs(s.t, "to", &to)
	d.MaybeScanArgs(s.t, "kind", &kind)
	s.mail = slices.DeleteFunc(s.mail, func(m mail) bool {
		is := (from == 0 || m.from == bft.ID(from)) && (to == 0 || m.out.To == bft.ID(to)) && (kind == "" || m.out.Message.Kind() == kind)
		if is {
			picked = append(picked, m)
		}
		return is
	})
	return picked
}

func (s *script) deliverOnce(picked []mail) {
	for _, m := range picked {
		if !s.lost[m.from] && !s.lost[m.out.To] {
			s.replicas[m.out.To-1].step(bft.Received{From: m.from, Message: m.out.Message})
		}
	}
}

func (s *script) deliver() {
	for range 20_000 {
		if len(s.mail) == 0 {
			return
		}
		m := s.mail[0]
		s.mail = s.mail[1:]
		s.deliverOnce([]mail{m})
	}
	s.say("the replicas keep each other busy")
	s.mail = nil
}

func (s *script) pass(by time.Duration, travelling bool) {
	for end := s.now + by; s.now < end; {
		s.now = min(end, s.now+250*time.Millisecond)
		for _, p := range s.replicas {
			if p.core != nil && p.deadline != 0 && p.deadline <= s.now {
				p.step(bft.Tick{})
			}
		}
		if travelling {
			s.deliver()
		}
	}
}

func (s *script) show() {
	for _, p := range s.replicas {
		if p.core == nil {
			s.say("%d is down", p.id)
			continue
		}
		v := p.core.View()
		s.say("%d epoch %d view %d leader %d applied %d stable %d held %d pending %d", p.id, v.Group.Epoch, v.View, v.Leader, v.Applied, v.Stable, v.Held, v.Pending)
	}
}

// changes is what is different from the time before.
func (s *script) changes() string {
	out := s.said
	s.said = nil
	for _, p := range s.replicas {
		if now := p.String(); now != p.shown {
			p.shown = now
			out = append(out, now)
		}
	}
	return strings.Join(out, "\n")
}

// lie sends what a line names, signed by p:
//
//	propose VIEW SEQ TO...: txs         a pre-prepare to some
//	vote VIEW SEQ: txs                  a prepare to all; with bad in place of vote: spoiled
//	commit VIEW SEQ: txs                a commit to all
//	decided SEQ: txs                    that it is decided
//	have SEQ: txs                       an entry that nobody may have asked for
//	view-change VIEW: VIEW/SEQ/tx...    a view change, with what was never prepared
//	new-view VIEW: N...                 a new view of the view changes that N... have sent; N! is forged, N+ repeats
//	checkpoint SEQ: text                a state that nobody has
//	flood VIEW SEQ: count               votes from there on
func (s *script) lie(p *replica, line string) {
	head, tail, _ := strings.Cut(line, ":")
	words := strings.Fields(head)
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(words[i], 10, 64)
		require.NoError(s.t, err, line)
		return n
	}
	entry := &bft.Entry{}
	for _, tx := range strings.Fields(tail) {
		entry.Txs = append(entry.Txs, []byte(tx))
	}
	digest, epoch := entry.Digest(), uint64(0)
	switch words[0] {
	case "propose":
		m := &PrePrepare{Epoch: epoch, View: number(1), Seq: number(2), Entry: entry}
		m.Signature = scriptSign(p.id, PrepareStatement("ch", epoch, m.View, m.Seq, digest))
		for i := range words[3:] {
			s.post(p.id, bft.Outgoing{To: number(i + 3), Message: m})
		}
	case "vote", "bad":
		m := &Prepare{Epoch: epoch, View: number(1), Seq: number(2), Digest: digest}
		m.Signature = scriptSign(p.id, PrepareStatement("ch", epoch, m.View, m.Seq, digest))
		if words[0] == "bad" {
			m.Signature = []byte("spoiled")
		}
		s.toAll(p, m)
	case "commit":
		s.toAll(p, &Commit{Epoch: epoch, View: number(1), Seq: number(2), Digest: digest})
	case "decided":
		s.toAll(p, &Commit{Epoch: epoch, Seq: number(1), Digest: digest, Decided: true})
	case "have":
		s.toAll(p, &Have{Epoch: epoch, Seq: number(1), Entry: entry})
	case "checkpoint":
		cp := bft.Checkpoint{Epoch: epoch, Seq: number(1), State: sha256.Sum256([]byte(tail)), Next: s.cfg.Group}
		s.toAll(p, &CheckpointVote{Checkpoint: cp, Signature: scriptSign(p.id, CheckpointStatement("ch", cp))})
	case "view-change":
		m := &ViewChange{Epoch: epoch, View: number(1), Replica: p.id, Stable: s.genesis()}
		for _, tx := range strings.Fields(tail) {
			m.Prepared = append(m.Prepared, s.unprepared(p, tx))
		}
		m.Signature = scriptSign(p.id, m.Statement("ch"))
		s.toAll(p, m)
	case "new-view":
		s.toAll(p, s.beginning(p, number(1), strings.Fields(tail)))
	case "flood":
		count, err := strconv.Atoi(strings.TrimSpace(tail))
		require.NoError(s.t, err)
		for i := range uint64(count) {
			m := &Prepare{Epoch: epoch, View: number(1), Seq: number(2) + i}
			m.Signature = scriptSign(p.id, PrepareStatement("ch", epoch, m.View, m.Seq, m.Digest))
			s.toAll(p, m)
			s.toAll(p, &Commit{Epoch: epoch, View: number(1), Seq: number(2) + i})
		}
	default:
		s.t.Fatalf("unknown lie %q", line)
	}
}

func (s *script) toAll(p *replica, m bft.Message) {
	for _, other := range s.replicas {
		if other != p {
			s.post(p.id, bft.Outgoing{To: other.id, Message: m})
		}
	}
}

func (s *script) genesis() bft.Certificate {
	return bft.Certificate{Checkpoint: bft.Checkpoint{Next: s.cfg.Group}}
}

// unprepared reads VIEW/SEQ/tx, under p's signature in everybody's name.
func (s *script) unprepared(p *replica, text string) Prepared {
	var view, seq uint64
	var tx string
	_, err := fmt.Sscanf(strings.ReplaceAll(text, "/", " "), "%d %d %s", &view, &seq, &tx)
	require.NoError(s.t, err)
	claim := Prepared{View: view, Seq: seq, Digest: (&bft.Entry{Txs: [][]byte{[]byte(tx)}}).Digest()}
	for _, id := range s.cfg.Group.Members[:s.cfg.Group.Quorum()] {
		claim.Signatures = append(claim.Signatures, bft.Signature{By: id, Bytes: scriptSign(p.id, PrepareStatement("ch", 0, view, seq, claim.Digest))})
	}
	return claim
}

func (s *script) beginning(p *replica, view uint64, from []string) *NewView {
	m := &NewView{View: view}
	for _, word := range from {
		id, err := strconv.ParseUint(strings.TrimRight(word, "!"), 10, 64)
		require.NoError(s.t, err)
		change := &ViewChange{View: view, Replica: id, Stable: s.genesis()}
		change.Signature = scriptSign(p.id, change.Statement("ch"))
		if !strings.HasSuffix(word, "!") && id != p.id {
			change = s.overheard(id, view)
		}
		m.Changes = append(m.Changes, change)
	}
	m.Signature = scriptSign(p.id, m.Statement("ch"))
	return m
}

func (s *script) overheard(id bft.ID, view uint64) *ViewChange {
	for _, m := range s.sent {
		if change, ok := m.out.Message.(*ViewChange); ok && change.Replica == id && change.View == view {
			return change
		}
	}
	s.say("%d has sent no view change for view %d", id, view)
	return &ViewChange{View: view, Replica: id, Stable: s.genesis()}
}
