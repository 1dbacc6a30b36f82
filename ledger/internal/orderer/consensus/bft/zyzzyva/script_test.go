package zyzzyva

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// TestScripts runs replicas and a client step by step, see scripttest. Its command
//
//	new n=N settle=D fast=D   starts a group and a client, 100
func TestScripts(t *testing.T) { scripttest.Walk(t, "testdata", begin) }

// TestScriptsAsPublished is for TestUnsafeAsPublished, which runs it in a build with the view change as first published.
func TestScriptsAsPublished(t *testing.T) {
	mutanttest.SkipUnlessMutated(t)
	scripttest.Walk(t, "published", begin)
}

// begin makes what a command "new" asks for.
func begin(t *testing.T, d *datadriven.TestData) *scripttest.Script {
	n := 4
	d.MaybeScanArgs(t, "n", &n)
	cfg := Config{
		Domain: "ch", Group: scripttest.GroupOf(n), Interval: 4, Window: 8, Pending: 64, PendingBytes: 1 << 20,
		Settle: scripttest.Duration(t, d, "settle", 300*time.Millisecond), Fast: scripttest.Duration(t, d, "fast", 100*time.Millisecond),
		Resend: 200 * time.Millisecond, Limits: base.Limits{BatchTxs: 8, BatchBytes: 1 << 20, Timeout: time.Second, MaxTimeout: 8 * time.Second},
	}
	protocol := scripttest.Protocol{
		New: func(id bft.ID, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			own := cfg
			own.ID = id
			own.InForce = func() Config {
				now := own
				now.BatchTxs = oracle.(*scripttest.Replica).Most(cfg.BatchTxs)
				return now
			}
			return New(own.InForce(), oracle, state, records)
		},
		Encode: Encode, Decode: Decode, EncodeRecord: EncodeRecord, DecodeRecord: DecodeRecord,
		Client: NewClient(ClientConfig{
			Domain: "ch", Group: cfg.Group, Fast: 100 * time.Millisecond, Resend: 400 * time.Millisecond, MaxResend: 4 * time.Second,
			Verify: scripttest.Verify,
		}),
		Answer: answer, Lie: lie, Tick: 100 * time.Millisecond,
	}
	return scripttest.New(t, protocol, cfg.Group, 0)
}

// answer is for the client, whose transactions all are.
func answer(a bft.Answer) bft.Message {
	return Address(a.Message, a.Entry.IDs()...)
}

// lie sends what a line names, signed by p. A history is the transactions of its entries, one each:
//
//	order VIEW TO...: history         an order of the last entry, to some
//	after EPOCH TO...: history        the same in the first view of a later epoch
//	doctor TO...: history tx          the leader's order of the history, with another entry, to some
//	respond VIEW TO...: history       a response to it; 100: to the client
//	spoil VIEW TO...: history         the same without a proper signature
//	forge TO...: history              the same with an order that the leader has not signed
//	elsewhere EPOCH SEQ TO...: history  the same as if it were at another place
//	claim TO...: history tx           a response to the history that has another transaction at its end
//	hold TO...: history               that p holds a certificate of it
//	change VIEW: history              a view change with this history and no certificate, to all
//	lead VIEW: N...                   a new view of the view changes that N... have sent, to all
//	confirm VIEW TO...: history       that the view begins with it, to some
//	bad-confirm VIEW                  the beginning of a view that others have confirmed, spoiled, to all
//	bad-checkpoint SEQ                the state that others have, spoiled, to all
//	bad-stable VIEW SEQ               a view change with the stable checkpoint that others have, spoiled, to all
//	request TO...: tx                 a request to some
//	commit VIEW TO...: history        a certificate with p's signature in everybody's name
//	final TO...: tx                   that the client's transaction is final
//	applied VIEW TO...: history       that this history is final
//	tell TO...: history               the last entry of a final history
func lie(s *scripttest.Script, p *scripttest.Replica, line string) {
	head, tail, _ := strings.Cut(line, ":")
	words, txs := strings.Fields(head), strings.Fields(tail)
	before, history, entry := bft.Digest{}, Beginning(0), &bft.Entry{}
	var digests []bft.Digest
	for _, tx := range txs {
		entry = &bft.Entry{Txs: [][]byte{[]byte(tx)}}
		digests = append(digests, entry.Digest())
		before, history = history, Chain(history, entry.Digest())
	}
	seq := uint64(len(txs))
	toSome := func(words []string, m bft.Message) {
		for _, word := range words {
			s.Post(p.ID, bft.Outgoing{To: s.Number(word), Message: m})
		}
	}
	sign := func(data []byte) []byte { return scripttest.Sign(p.ID, data) }
	switch words[0] {
	case "order":
		view := s.Number(words[1])
		toSome(words[2:], &Order{View: view, Seq: seq, History: history, Entry: entry, Signature: sign(OrderStatement("ch", 0, view, seq, history))})
	case "after":
		epoch := s.Number(words[1])
		history = Beginning(epoch)
		for _, d := range digests {
			history = Chain(history, d)
		}
		seq += epoch
		toSome(words[2:], &Order{Epoch: epoch, Seq: seq, History: history, Entry: entry, Signature: sign(OrderStatement("ch", epoch, 0, seq, history))})
	case "doctor":
		others, ok := scripttest.Overheard(s, func(m *Order) bool { return m.Seq == seq-1 && m.History == before })
		require.True(s.T, ok, line)
		doctored := *others
		doctored.Entry = entry
		toSome(words[1:], &doctored)
	case "respond", "spoil":
		view := s.Number(words[1])
		m := respond(p.ID, position{view: view, seq: seq}, history, entry)
		m.Order = scripttest.Sign(s.Group.Leader(view), OrderStatement("ch", 0, view, seq, history))
		if words[0] == "spoil" {
			m.Signature = []byte("spoiled")
		}
		toSome(words[2:], m)
	case "forge":
		m := respond(p.ID, position{seq: seq}, history, entry)
		m.Order = []byte("forged")
		toSome(words[1:], m)
	case "elsewhere":
		toSome(words[3:], respond(p.ID, position{epoch: s.Number(words[1]), seq: s.Number(words[2])}, history, entry))
	case "claim":
		toSome(words[1:], respond(p.ID, position{seq: seq - 1}, before, entry))
	case "hold":
		toSome(words[1:], &LocalCommit{Seq: seq, History: history})
	case "change":
		m := &ViewChange{
			View: s.Number(words[1]), Replica: p.ID, Digests: digests, Stable: Stable{Checkpoint: bft.Checkpoint{Next: s.Group}},
			Certificate: Certificate{History: Beginning(0), Start: true},
		}
		m.Signature = sign(m.Statement("ch"))
		s.PostOthers(p.ID, m)
	case "lead":
		m := &NewView{View: s.Number(words[1])}
		for _, word := range txs {
			m.Changes = append(m.Changes, overheard(s, s.Number(word), m.View))
		}
		m.Signature = sign(m.Statement("ch"))
		s.PostOthers(p.ID, m)
	case "confirm":
		view := s.Number(words[1])
		toSome(words[2:], &Confirm{View: view, Seq: seq, History: history, Signature: sign(ConfirmStatement("ch", 0, view, seq, history))})
	case "bad-confirm":
		view := s.Number(words[1])
		others, ok := scripttest.Overheard(s, func(m *Confirm) bool { return m.View == view })
		require.True(s.T, ok, line)
		s.PostOthers(p.ID, &Confirm{View: view, Seq: others.Seq, History: others.History, Signature: []byte("spoiled")})
	case "bad-checkpoint":
		others, ok := scripttest.Overheard(s, func(m *CheckpointVote) bool { return m.Checkpoint.Seq == s.Number(words[1]) })
		require.True(s.T, ok, line)
		s.PostOthers(p.ID, &CheckpointVote{Checkpoint: others.Checkpoint, History: others.History, Signature: []byte("spoiled")})
	case "bad-stable":
		view, seq := s.Number(words[1]), s.Number(words[2])
		others, ok := scripttest.Overheard(s, func(m *ViewChange) bool { return m.View == view && m.Stable.Seq == seq })
		require.True(s.T, ok, line)
		m := &ViewChange{View: view, Replica: p.ID, Stable: others.Stable, Certificate: Certificate{History: Beginning(0), Start: true}}
		m.Stable.Signatures = nil
		for _, signature := range others.Stable.Signatures {
			m.Stable.Signatures = append(m.Stable.Signatures, bft.Signature{By: signature.By, Bytes: []byte("spoiled")})
		}
		m.Signature = sign(m.Statement("ch"))
		s.PostOthers(p.ID, m)
	case "request":
		toSome(words[1:], &bft.Request{Txs: entry.Txs})
	case "commit":
		cert := Certificate{View: s.Number(words[1]), Seq: seq, History: history}
		for _, id := range s.Group.Members[:s.Group.Quorum()] {
			cert.Signatures = append(cert.Signatures, bft.Signature{By: id, Bytes: sign(ResponseStatement("ch", 0, cert.View, seq, history))})
		}
		toSome(words[2:], &Commit{cert})
	case "applied":
		toSome(words[2:], &Status{View: s.Number(words[1]), Active: true, Applied: seq, Last: seq, History: history, Final: history})
	case "tell":
		toSome(words[1:], &Tell{Seq: seq, Before: before, Entry: entry})
	case "final":
		toSome(words[1:], &Response{Final: true, Txs: []bft.Digest{bft.TxDigest([]byte(txs[0]))}})
	default:
		s.T.Fatalf("unknown lie %q", line)
	}
}

// respond is a replica's word, with the order of the first leader.
func respond(by bft.ID, at position, history bft.Digest, entry *bft.Entry) *Response {
	return &Response{
		Epoch: at.epoch, View: at.view, Seq: at.seq, History: history, Txs: []bft.Digest{bft.TxDigest(entry.Txs[0])},
		Signature: scripttest.Sign(by, ResponseStatement("ch", at.epoch, at.view, at.seq, history)),
		Order:     scripttest.Sign(1, OrderStatement("ch", at.epoch, at.view, at.seq, history)),
	}
}

func overheard(s *scripttest.Script, id bft.ID, view uint64) *ViewChange {
	change, ok := scripttest.Overheard(s, func(m *ViewChange) bool { return m.Replica == id && m.View == view })
	if ok {
		return change
	}
	s.Say("%d has sent no view change for view %d", id, view)
	return &ViewChange{View: view, Replica: id}
}
