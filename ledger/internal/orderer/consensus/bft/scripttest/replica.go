package scripttest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Replica is a core with its disk and state machine. It is its core's oracle: a signature names who signs what.
type Replica struct {
	ID       bft.ID
	s        *Script
	core     bft.Core
	disk     []bft.Record
	held     []bft.Effects
	holds    bool
	works    bool
	entries  []*bft.Entry
	state    []bft.Digest
	ahead    []*bft.Entry
	deadline bft.Time
	shown    string
}

func (p *Replica) start() {
	state := bft.State{Applied: uint64(len(p.entries))}
	if last := len(p.entries); last > 0 {
		state.Closed = p.entries[last-1].Config
	}
	// What the disk has is what was encoded.
	records := make([]bft.Record, len(p.disk))
	for i, r := range p.disk {
		var err error
		records[i], err = p.s.protocol.DecodeRecord(p.s.protocol.EncodeRecord(r))
		require.NoError(p.s.T, err)
	}
	p.core = p.s.protocol.New(p.ID, p, state, records)
	p.step(bft.Tick{})
}

func (p *Replica) crash() {
	p.core, p.holds, p.held, p.ahead = nil, false, nil, nil
	p.s.mail = slices.DeleteFunc(p.s.mail, func(m mail) bool { return m.out.To == p.ID })
}

func (p *Replica) step(in bft.Input) {
	if p.core == nil {
		return
	}
	e := p.core.Step(p.s.now, in)
	p.deadline = e.Deadline
	for _, out := range e.AtOnce {
		p.s.Post(p.ID, out)
	}
	p.held = append(p.held, e)
	p.work()
}

// flush has the disk keep what it was at.
func (p *Replica) flush() {
	p.holds = false
	p.work()
}

// work does what follows from steps, one after the other. It may make steps itself.
func (p *Replica) work() {
	if p.works {
		return
	}
	p.works = true
	for len(p.held) > 0 && !p.holds {
		e := p.held[0]
		p.held = p.held[1:]
		p.release(e)
	}
	p.works = false
}

func (p *Replica) release(e bft.Effects) {
	p.disk = append(p.disk, e.Persist...)
	if e.Fault != nil {
		p.s.Say("%d stops: %s", p.ID, e.Fault)
		p.core = nil
		return
	}
	if e.Undo != nil {
		p.ahead = p.ahead[:int(*e.Undo)-len(p.entries)]
	}
	for _, o := range e.Ahead {
		p.ahead = append(p.ahead, o.Entry)
	}
	for _, r := range e.Refused {
		p.s.Say("%d refuses: %s", p.ID, r.Reason)
	}
	for _, a := range e.Answer {
		p.s.Post(p.ID, bft.Outgoing{To: Client, Message: p.s.protocol.Answer(a)})
	}
	for _, out := range e.Send {
		p.s.Post(p.ID, out)
	}
	for _, o := range e.Apply {
		p.apply(o)
	}
	if e.Fetch != nil {
		p.step(bft.Logged{Seq: e.Fetch.Certificate.Seq})
		p.fetch(*e.Fetch)
	}
}

func (p *Replica) apply(o bft.Ordered) {
	if o.Entry != nil {
		if o.Seq != uint64(len(p.entries))+1 {
			p.s.Say("%d applies %d after %d", p.ID, o.Seq, len(p.entries))
			return
		}
		if len(p.ahead) > 0 {
			if p.ahead[0].Digest() != o.Entry.Digest() {
				p.s.Say("%d applies %s where it has executed %s", p.ID, spell(o.Entry), spell(p.ahead[0]))
			}
			p.ahead = p.ahead[1:]
		}
		p.add(o.Entry)
	}
	if o.Sync {
		p.step(bft.Synced{Seq: o.Seq, State: p.state[o.Seq-1], Members: p.members()})
	}
}

func (p *Replica) add(e *bft.Entry) {
	var before bft.Digest
	if n := len(p.state); n > 0 {
		before = p.state[n-1]
	}
	d := e.Digest()
	p.entries, p.state = append(p.entries, e), append(p.state, sha256.Sum256(append(before[:], d[:]...)))
}

func (p *Replica) members() []bft.ID {
	members := p.s.Group.Members
	for _, e := range p.entries {
		if !e.Config {
			continue
		}
		members = nil
		names, _, _ := strings.Cut(string(e.Txs[0][1:]), "/")
		for _, word := range strings.Split(names, ",") {
			members = append(members, p.s.Number(word))
		}
	}
	return members
}

// Most is how many transactions an entry holds at most by the configuration in force, and unless one says so.
func (p *Replica) Most(unless int) int {
	for _, e := range p.entries {
		if _, most, says := strings.Cut(string(e.Txs[0]), "/"); e.Config && says {
			unless = int(p.s.Number(most))
		}
	}
	return unless
}

func (p *Replica) fetch(f bft.Fetch) {
	for _, signature := range f.Certificate.Signatures {
		id := signature.By
		other := p.s.replicas[id-1]
		if other == p || p.s.lost[id] || p.s.lost[p.ID] || uint64(len(other.state)) < f.Certificate.Seq || other.state[f.Certificate.Seq-1] != f.Certificate.State {
			continue
		}
		p.s.Say("%d fetches up to %d from %d", p.ID, f.Certificate.Seq, id)
		for _, e := range other.entries[len(p.entries):f.Certificate.Seq] {
			p.add(e)
		}
		p.step(bft.Fetched{Seq: f.Certificate.Seq})
		return
	}
	p.s.Say("%d finds nobody to fetch %d from", p.ID, f.Certificate.Seq)
}

// String shows a replica as the output does.
func (p *Replica) String() string {
	if p.core == nil {
		return fmt.Sprintf("%d is down", p.ID)
	}
	v := p.core.View()
	text := fmt.Sprintf("%d view %d", p.ID, v.View)
	if v.Group.Epoch > 0 {
		text = fmt.Sprintf("%d epoch %d view %d", p.ID, v.Group.Epoch, v.View)
	}
	if !v.Active {
		text += " waits"
	}
	text += ":"
	for _, e := range p.entries {
		text += " [" + spell(e) + "]"
	}
	for _, e := range p.ahead {
		text += " (" + spell(e) + ")"
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

// Sign implements bft.Oracle.
func (p *Replica) Sign(data []byte) []byte { return Sign(p.ID, data) }

// Verify implements bft.Oracle.
func (p *Replica) Verify(by bft.ID, data, signature []byte) bool { return Verify(by, data, signature) }

// Check implements bft.Oracle.
func (p *Replica) Check(tx []byte) (config, ok bool) {
	outdated := tx[len(tx)-1] == '~' && slices.ContainsFunc(p.entries, func(e *bft.Entry) bool { return e.Config })
	return tx[0] == '=', tx[0] != '!' && !outdated
}

// Mark implements bft.Oracle.
func (p *Replica) Mark(tx []byte) bool { return tx[0] == '|' }

// Known implements bft.Oracle.
func (p *Replica) Known(tx bft.Digest) bool {
	return slices.ContainsFunc(p.entries, func(e *bft.Entry) bool {
		return slices.ContainsFunc(e.Txs, func(other []byte) bool { return bft.TxDigest(other) == tx })
	})
}

// Sign makes the signature of a replica.
func Sign(id bft.ID, data []byte) []byte {
	sum := sha256.Sum256(append([]byte{byte(id)}, data...))
	return sum[:8]
}

// Verify reports whether it is that.
func Verify(by bft.ID, data, signature []byte) bool {
	return string(signature) == string(Sign(by, data))
}
