package scripttest

import (
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// busiest is how many messages may follow from each other before a script gives up.
const busiest = 20_000

func (s *Script) do(d *datadriven.TestData) string {
	id := 0
	d.MaybeScanArgs(s.T, "node", &id)
	var p *Replica
	if id > 0 {
		p = s.replicas[id-1]
	}
	lines := strings.Split(d.Input, "\n")
	switch d.Cmd {
	case "new":
	case "submit":
		for _, tx := range lines {
			p.step(bft.Submit{Tx: []byte(tx)})
		}
	case "ask":
		for _, tx := range lines {
			s.stepClient(bft.Submit{Tx: []byte(tx)})
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
			s.Say("%d -> %d %s", m.from, m.out.To, m.out.Message.Kind())
		}
	case "advance", "run":
		s.pass(Duration(s.T, d, "by", 0), d.Cmd == "run")
	case "isolate":
		s.lost[bft.ID(id)] = true
	case "heal":
		clear(s.lost)
	case "hold":
		p.holds = true
	case "flush":
		p.flush()
	case "crash":
		p.crash()
	case "restart":
		p.start()
	case "lie":
		for _, line := range lines {
			s.protocol.Lie(s, p, line)
		}
	case "replay":
		s.mail = append(s.mail, s.sent...)
	case "show":
		s.show()
	default:
		d.Fatalf(s.T, "unknown command %s", d.Cmd)
	}
	return s.changes()
}

// pick takes the messages out of the mail that the arguments name.
func (s *Script) pick(d *datadriven.TestData) (picked []mail) {
	var from, to int
	var kind string
	d.MaybeScanArgs(s.T, "from", &from)
	d.MaybeScanArgs(s.T, "to", &to)
	d.MaybeScanArgs(s.T, "kind", &kind)
	s.mail = slices.DeleteFunc(s.mail, func(m mail) bool {
		is := (from == 0 || m.from == bft.ID(from)) && (to == 0 || m.out.To == bft.ID(to)) && (kind == "" || m.out.Message.Kind() == kind)
		if is {
			picked = append(picked, m)
		}
		return is
	})
	return picked
}

func (s *Script) deliverOnce(picked []mail) {
	for _, m := range picked {
		in := bft.Received{From: m.from, Message: m.out.Message}
		switch {
		case s.lost[m.from] || s.lost[m.out.To]:
		case m.out.To == Client:
			s.stepClient(in)
		default:
			s.replicas[m.out.To-1].step(in)
		}
	}
}

func (s *Script) deliver() {
	for range busiest {
		if len(s.mail) == 0 {
			return
		}
		m := s.mail[0]
		s.mail = s.mail[1:]
		s.deliverOnce([]mail{m})
	}
	s.Say("the replicas keep each other busy")
	s.mail = nil
}

func (s *Script) stepClient(in bft.Input) {
	e := s.protocol.Client.Step(s.now+1, in)
	s.due = e.Deadline
	for _, out := range e.Send {
		s.Post(Client, out)
	}
	for _, a := range e.Accepted {
		s.Say("client: %s at %d, %s", s.named(a.Tx), a.Seq, []string{"by all", "by certificate", "by word"}[a.How])
	}
}

// named is the transaction of a request that was sent.
func (s *Script) named(tx bft.Digest) string {
	is := func(other []byte) bool { return bft.TxDigest(other) == tx }
	request, ok := Overheard(s, func(r *bft.Request) bool { return slices.ContainsFunc(r.Txs, is) })
	if !ok {
		return "?"
	}
	return string(request.Txs[slices.IndexFunc(request.Txs, is)])
}

func (s *Script) pass(by time.Duration, travelling bool) {
	for end := s.now + by; s.now < end; {
		s.now = min(end, s.now+s.protocol.Tick)
		for _, p := range s.replicas {
			if p.core != nil && p.deadline != 0 && p.deadline <= s.now {
				p.step(bft.Tick{})
			}
		}
		if s.due != 0 && s.due <= s.now {
			s.stepClient(bft.Tick{})
		}
		if travelling {
			s.deliver()
		}
	}
}

func (s *Script) show() {
	for _, p := range s.replicas {
		if p.core == nil {
			s.Say("%d is down", p.ID)
			continue
		}
		v := p.core.View()
		s.Say("%d epoch %d view %d leader %d applied %d stable %d last %d held %d pending %d",
			p.ID, v.Group.Epoch, v.View, v.Leader, v.Applied, v.Stable, v.Last, v.Held, v.Pending)
	}
}
