package pbft

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestScripts runs replicas step by step: nothing happens but what the script says. Commands:
//
//	new n=N joiners=N interval=N window=N  starts a group, and replicas that wait to be added to it
//	submit node=N                          hands each line of the input to N
//	deliver                                messages travel, and what they cause, until there are none;
//	  to=N from=N kind=K                   only such, once; the others wait
//	drop to=N from=N kind=K                loses messages that wait
//	shuffle                                turns the order of those that wait around
//	mail                                   lists them
//	advance by=D                           lets time pass, in steps of a quarter second, without a message
//	run by=D                               the same, while messages travel
//	isolate node=N, heal                   messages from and to N are lost
//	hold node=N, flush node=N              N's disk takes until then
//	crash node=N, restart node=N           what the disk was at is lost; what it had is not
//	lie node=N                             N says what the lines of the input name, see lie
//	replay                                 every message that was ever sent is sent again
//	show                                   where all stand
//
// A transaction =1,2,3 is a configuration with these members; one that begins with ! no client has signed.
//
// The output is what is new: what a replica has applied, and its view. Rewrite with -rewrite.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		runScript(t, path, sound(), func(d *datadriven.TestData, s *script) string { return s.do(d) })
	})
}

func runScript(t *testing.T, path string, r rules, do func(*datadriven.TestData, *script) string) {
	var s *script
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "new" {
			s = newScript(t, d, r)
		}
		s.t = t
		return do(d, s)
	})
}

// script is a group of replicas.
type script struct {
	t        *testing.T
	rules    rules
	now      bft.Time
	cfg      Config
	replicas []*replica
	mail     []mail
	sent     []mail
	lost     map[bft.ID]bool
	said     []string
}

type mail struct {
	from bft.ID
	out  bft.Outgoing
}

// replica is a core with its disk and state machine.
type replica struct {
	s        *script
	id       bft.ID
	core     *Core
	disk     []bft.Record
	held     []bft.Effects
	holds    bool
	entries  []*bft.Entry
	state    []bft.Digest
	deadline bft.Time
	shown    string
}

func newScript(t *testing.T, d *datadriven.TestData, r rules) *script {
	n, joiners, window, interval := 4, 0, 8, 4
	d.MaybeScanArgs(t, "n", &n)
	d.MaybeScanArgs(t, "joiners", &joiners)
	d.MaybeScanArgs(t, "window", &window)
	d.MaybeScanArgs(t, "interval", &interval)
	s := &script{t: t, rules: r, lost: map[bft.ID]bool{}}
	group := bft.Group{}
	for id := range n {
		group.Members = append(group.Members, bft.ID(id)+1)
	}
	s.cfg = Config{
		Domain: "ch", Group: group, Interval: uint64(interval), Window: uint64(window), Overlap: 4, BatchTxs: 8, BatchBytes: 1 << 20,
		Pending: 64, PendingBytes: 1 << 20, Timeout: time.Second, MaxTimeout: 8 * time.Second, Resend: 100 * time.Millisecond,
	}
	for id := range n + joiners {
		s.replicas = append(s.replicas, &replica{s: s, id: bft.ID(id) + 1})
	}
	for _, p := range s.replicas {
		p.start()
	}
	s.mail = nil // they have told each other that they are here
	return s
}

func (p *replica) start() {
	cfg := p.s.cfg
	cfg.ID = p.id
	state := bft.State{Applied: uint64(len(p.entries))}
	if last := len(p.entries); last > 0 {
		state.Closed = p.entries[last-1].Config
	}
	// What the disk has is what was encoded.
	records := make([]bft.Record, len(p.disk))
	for i, r := range p.disk {
		var err error
		records[i], err = DecodeRecord(EncodeRecord(r))
		require.NoError(p.s.t, err)
	}
	p.core = newCore(cfg, scriptOracle{p}, state, records, p.s.rules)
	p.step(bft.Tick{})
}

func (p *replica) step(in bft.Input) {
	if p.core == nil {
		return
	}
	e := p.core.Step(p.s.now, in)
	p.deadline = e.Deadline
	if p.holds {
		p.held = append(p.held, e)
		return
	}
	p.release(e)
}

func (p *replica) release(e bft.Effects) {
	p.disk = append(p.disk, e.Persist...)
	if e.Fault != nil {
		p.s.say("%d stops: %s", p.id, e.Fault)
		p.core = nil
		return
	}
	for _, r := range e.Refused {
		p.s.say("%d refuses: %s", p.id, r.Reason)
	}
	for _, out := range e.Send {
		raw := Encode(out.Message)
		m, err := Decode(raw)
		require.NoError(p.s.t, err)
		out.Message = m
		p.s.post(p.id, out)
	}
	for _, o := range e.Apply {
		p.apply(o)
	}
	if e.Fetch != nil {
		p.fetch(*e.Fetch)
	}
}

func (p *replica) apply(o bft.Ordered) {
	if o.Entry != nil {
		if o.Seq != uint64(len(p.entries))+1 {
			p.s.say("%d applies %d after %d", p.id, o.Seq, len(p.entries))
			return
		}
		p.add(o.Entry)
	}
	if o.Sync {
		p.step(bft.Synced{Seq: o.Seq, State: p.state[o.Seq-1], Members: p.members()})
	}
}

func (p *replica) add(e *bft.Entry) {
	var before bft.Digest
	if n := len(p.state); n > 0 {
		before = p.state[n-1]
	}
	d := e.Digest()
	p.entries, p.state = append(p.entries, e), append(p.state, sha256.Sum256(append(before[:], d[:]...)))
}

func (p *replica) members() []bft.ID {
	members := p.s.cfg.Group.Members
	for _, e := range p.entries {
		if !e.Config {
			continue
		}
		members = nil
		for _, word := range strings.Split(string(e.Txs[0][1:]), ",") {
			id, err := strconv.ParseUint(word, 10, 64)
			require.NoError(p.s.t, err)
			members = append(members, id)
		}
	}
	return members
}

func (p *replica) fetch(f bft.Fetch) {
	for _, id := range f.From {
		other := p.s.replicas[id-1]
		if p.s.lost[id] || p.s.lost[p.id] || uint64(len(other.state)) < f.Certificate.Seq || other.state[f.Certificate.Seq-1] != f.Certificate.State {
			continue
		}
		p.s.say("%d fetches up to %d from %d", p.id, f.Certificate.Seq, id)
		for _, e := range other.entries[len(p.entries):f.Certificate.Seq] {
			p.add(e)
		}
		p.step(bft.Fetched{Seq: f.Certificate.Seq})
		return
	}
	p.s.say("%d finds nobody to fetch %d from", p.id, f.Certificate.Seq)
}

func (p *replica) String() string {
	if p.core == nil {
		return fmt.Sprintf("%d is down", p.id)
	}
	v := p.core.View()
	text := fmt.Sprintf("%d view %d", p.id, v.View)
	if v.Group.Epoch > 0 {
		text = fmt.Sprintf("%d epoch %d view %d", p.id, v.Group.Epoch, v.View)
	}
	if !v.Active {
		text += " waits"
	}
	text += ":"
	for _, e := range p.entries {
		text += " [" + spell(e) + "]"
	}
	return text
}

func spell(e *bft.Entry) string {
	words := make([]string, len(e.Txs))
	for i, tx := range e.Txs {
		words[i] = string(tx)
	}
	return strings.Join(words, " ")
}

// scriptOracle's signatures name who signs what.
type scriptOracle struct{ p *replica }

// Sign implements bft.Oracle.
func (o scriptOracle) Sign(data []byte) []byte { return scriptSign(o.p.id, data) }

// Verify implements bft.Oracle.
func (o scriptOracle) Verify(by bft.ID, data, signature []byte) bool {
	return string(signature) == string(scriptSign(by, data))
}

// Check implements bft.Oracle.
func (o scriptOracle) Check(tx []byte) (config, ok bool) { return tx[0] == '=', tx[0] != '!' }

// Known implements bft.Oracle.
func (o scriptOracle) Known(tx bft.Digest) bool {
	return slices.ContainsFunc(o.p.entries, func(e *bft.Entry) bool {
		return slices.ContainsFunc(e.Txs, func(other []byte) bool { return bft.TxDigest(other) == tx })
	})
}

func scriptSign(id bft.ID, data []byte) []byte {
	sum := sha256.Sum256(append([]byte{byte(id)}, data...))
	return sum[:8]
}

func (s *script) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *script) post(from bft.ID, out bft.Outgoing) {
	s.mail = append(s.mail, mail{from, out})
	s.sent = append(s.sent, mail{from, out})
}
