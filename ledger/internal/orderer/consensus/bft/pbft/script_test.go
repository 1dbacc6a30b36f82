package pbft

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// TestScripts runs replicas step by step, see scripttest. Its command
//
//	new n=N joiners=N interval=N window=N  starts a group, and replicas that wait to be added to it;
//	  pace=D                               leaders space entries
//	  at-once                              they propose before their proposal is durable
//	  spare=D                              spares leave it to the others for that long
//	  mark-wait=D                          marks wait for a transaction
func TestScripts(t *testing.T) { scripttest.Walk(t, "testdata", begin) }

// begin makes what a command "new" asks for.
func begin(t *testing.T, d *datadriven.TestData) *scripttest.Script {
	n, joiners, window, interval := 4, 0, 8, 4
	d.MaybeScanArgs(t, "n", &n)
	d.MaybeScanArgs(t, "joiners", &joiners)
	d.MaybeScanArgs(t, "window", &window)
	d.MaybeScanArgs(t, "interval", &interval)
	cfg := Config{
		Domain: "ch", Group: scripttest.GroupOf(n), Interval: uint64(interval), Window: uint64(window), Overlap: 4,
		ProposeAtOnce: d.HasArg("at-once"), Pace: scripttest.Duration(t, d, "pace", 0), MarkWait: scripttest.Duration(t, d, "mark-wait", 0), Pending: 64, PendingBytes: 1 << 20,
		SpareWait: scripttest.Duration(t, d, "spare", 0), Resend: 100 * time.Millisecond,
		Limits: base.Limits{BatchTxs: 8, BatchBytes: 1 << 20, Timeout: time.Second, MaxTimeout: 8 * time.Second},
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
		Lie: lie, Tick: 250 * time.Millisecond,
	}
	return scripttest.New(t, protocol, cfg.Group, joiners)
}

// lie sends what a line names, signed by p:
//
//	propose VIEW SEQ TO...: txs         a pre-prepare to some
//	vote VIEW SEQ: txs                  a prepare to all; with bad in place of vote: spoiled
//	commit VIEW SEQ: txs                a commit to all
//	decided SEQ: txs                    that it is decided
//	request TO: txs                     a request to one
//	have SEQ: txs                       an entry that nobody may have asked for
//	view-change VIEW: VIEW/SEQ/tx...    a view change, with what was never prepared
//	new-view VIEW: N...                 a new view of the view changes that N... have sent; N! is forged, N+ repeats
//	checkpoint SEQ: text                a state that nobody has
//	bad-checkpoint SEQ                  the state that others have, spoiled
//	flood VIEW SEQ: count               votes from there on
func lie(s *scripttest.Script, p *scripttest.Replica, line string) {
	head, tail, _ := strings.Cut(line, ":")
	words := strings.Fields(head)
	number := func(i int) uint64 { return s.Number(words[i]) }
	entry := &bft.Entry{}
	for _, tx := range strings.Fields(tail) {
		entry.Txs = append(entry.Txs, []byte(tx))
	}
	digest, epoch := entry.Digest(), uint64(0)
	switch words[0] {
	case "propose":
		m := &PrePrepare{Epoch: epoch, View: number(1), Seq: number(2), Entry: entry}
		m.Signature = scripttest.Sign(p.ID, PrepareStatement("ch", epoch, m.View, m.Seq, digest))
		for i := range words[3:] {
			s.Post(p.ID, bft.Outgoing{To: number(i + 3), Message: m})
		}
	case "vote", "bad":
		m := &Prepare{Epoch: epoch, View: number(1), Seq: number(2), Digest: digest}
		m.Signature = scripttest.Sign(p.ID, PrepareStatement("ch", epoch, m.View, m.Seq, digest))
		if words[0] == "bad" {
			m.Signature = []byte("spoiled")
		}
		s.PostOthers(p.ID, m)
	case "commit":
		s.PostOthers(p.ID, &Commit{Epoch: epoch, View: number(1), Seq: number(2), Digest: digest})
	case "decided":
		s.PostOthers(p.ID, &Commit{Epoch: epoch, Seq: number(1), Digest: digest, Decided: true})
	case "request":
		s.Post(p.ID, bft.Outgoing{To: number(1), Message: &bft.Request{Txs: entry.Txs}})
	case "have":
		s.PostOthers(p.ID, &bft.Have{Epoch: epoch, Seq: number(1), Entry: entry})
	case "checkpoint":
		cp := bft.Checkpoint{Epoch: epoch, Seq: number(1), State: sha256.Sum256([]byte(tail)), Next: s.Group}
		s.PostOthers(p.ID, &CheckpointVote{Checkpoint: cp, Signature: scripttest.Sign(p.ID, CheckpointStatement("ch", cp))})
	case "bad-checkpoint":
		others, ok := scripttest.Overheard(s, func(m *CheckpointVote) bool { return m.Checkpoint.Seq == number(1) })
		require.True(s.T, ok, line)
		s.PostOthers(p.ID, &CheckpointVote{Checkpoint: others.Checkpoint, Signature: []byte("spoiled")})
	case "view-change":
		m := &ViewChange{Epoch: epoch, View: number(1), Replica: p.ID, Stable: genesis(s)}
		for _, tx := range strings.Fields(tail) {
			m.Prepared = append(m.Prepared, unprepared(s, p, tx))
		}
		m.Signature = scripttest.Sign(p.ID, m.Statement("ch"))
		s.PostOthers(p.ID, m)
	case "new-view":
		s.PostOthers(p.ID, beginning(s, p, number(1), strings.Fields(tail)))
	case "flood":
		count, err := strconv.Atoi(strings.TrimSpace(tail))
		require.NoError(s.T, err)
		for i := range uint64(count) {
			m := &Prepare{Epoch: epoch, View: number(1), Seq: number(2) + i}
			m.Signature = scripttest.Sign(p.ID, PrepareStatement("ch", epoch, m.View, m.Seq, m.Digest))
			s.PostOthers(p.ID, m)
			s.PostOthers(p.ID, &Commit{Epoch: epoch, View: number(1), Seq: number(2) + i})
		}
	default:
		s.T.Fatalf("unknown lie %q", line)
	}
}

func genesis(s *scripttest.Script) bft.Certificate {
	return bft.Certificate{Checkpoint: bft.Checkpoint{Next: s.Group}}
}

// unprepared reads VIEW/SEQ/tx, under p's signature in everybody's name.
func unprepared(s *scripttest.Script, p *scripttest.Replica, text string) Prepared {
	var view, seq uint64
	var tx string
	_, err := fmt.Sscanf(strings.ReplaceAll(text, "/", " "), "%d %d %s", &view, &seq, &tx)
	require.NoError(s.T, err)
	claim := Prepared{View: view, Seq: seq, Digest: (&bft.Entry{Txs: [][]byte{[]byte(tx)}}).Digest()}
	for _, id := range s.Group.Members[:s.Group.Quorum()] {
		claim.Signatures = append(claim.Signatures, bft.Signature{By: id, Bytes: scripttest.Sign(p.ID, PrepareStatement("ch", 0, view, seq, claim.Digest))})
	}
	return claim
}

func beginning(s *scripttest.Script, p *scripttest.Replica, view uint64, from []string) *NewView {
	m := &NewView{View: view}
	for _, word := range from {
		id := s.Number(strings.TrimRight(word, "!"))
		change := &ViewChange{View: view, Replica: id, Stable: genesis(s)}
		change.Signature = scripttest.Sign(p.ID, change.Statement("ch"))
		if !strings.HasSuffix(word, "!") && id != p.ID {
			change = overheard(s, id, view)
		}
		m.Changes = append(m.Changes, change)
	}
	m.Signature = scripttest.Sign(p.ID, m.Statement("ch"))
	return m
}

func overheard(s *scripttest.Script, id bft.ID, view uint64) *ViewChange {
	change, ok := scripttest.Overheard(s, func(m *ViewChange) bool { return m.Replica == id && m.View == view })
	if ok {
		return change
	}
	s.Say("%d has sent no view change for view %d", id, view)
	return &ViewChange{View: view, Replica: id, Stable: genesis(s)}
}
