// Package scripttest runs a protocol's replicas and clients step by step, as data-driven tests: nothing happens but what
// a script says. Commands, beside "new", which is the protocol's own:
//
//	submit node=N                          hands each line of the input to N
//	ask                                    the client has each line of the input ordered
//	deliver                                messages travel, and what they cause, until there are none;
//	  to=N from=N kind=K                   only such, once; the others wait
//	drop to=N from=N kind=K                loses messages that wait
//	shuffle                                turns the order of those that wait around
//	mail                                   lists them
//	advance by=D                           lets time pass, in the protocol's steps, without a message
//	run by=D                               the same, while messages travel
//	isolate node=N, heal                   messages from and to N are lost
//	hold node=N, flush node=N              N's disk takes until then
//	crash node=N, restart node=N           what the disk was at is lost; what it had is not
//	lie node=N                             N says what the lines of the input name, as the protocol reads them
//	replay                                 every message that was ever sent is sent again
//	show                                   where all stand
//
// A transaction =1,2,3 is a configuration with these members, =1,2,3/5 one that also has entries hold 5 transactions at most,
// where the protocol's replicas ask for that (Most); one that begins with ! no client has signed;
// one that ends with ~ is allowed until there is a configuration; one that begins with | is a mark.
//
// The output is what is new: what a replica has applied, what it has executed ahead in round brackets, its view, and what
// the client accepts. Rewrite with -rewrite.
package scripttest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Client is the ID of a script's client.
const Client bft.ID = 100

// Protocol is what a script runs.
type Protocol struct {
	// New starts a replica; what it asks an oracle for is answered by the script.
	New          func(id bft.ID, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core
	Encode       func(bft.Message) []byte
	Decode       func([]byte) (bft.Message, error)
	EncodeRecord func(bft.Record) []byte
	DecodeRecord func([]byte) (bft.Record, error)
	// Client is nil where clients have no part in the protocol. Answer is what it is told about an entry.
	Client bft.Client
	Answer func(bft.Answer) bft.Message
	// Lie sends what a line names, signed by a replica.
	Lie func(s *Script, p *Replica, line string)
	// Tick is in what steps time passes.
	Tick time.Duration
}

// Script is a group of replicas, and the client that a protocol may have.
type Script struct {
	T        *testing.T
	Group    bft.Group // of the first epoch
	protocol Protocol
	now      bft.Time
	replicas []*Replica
	due      bft.Time // the client's tick
	mail     []mail
	sent     []mail
	lost     map[bft.ID]bool
	said     []string
}

type mail struct {
	from bft.ID
	out  bft.Outgoing
}

// Begin makes what a command "new" asks for.
type Begin func(t *testing.T, d *datadriven.TestData) *Script

// New starts a group, and as many replicas that wait to be added to it.
func New(t *testing.T, p Protocol, group bft.Group, joiners int) *Script {
	s := &Script{T: t, Group: group, protocol: p, lost: map[bft.ID]bool{}}
	for id := range len(group.Members) + joiners {
		s.replicas = append(s.replicas, &Replica{ID: bft.ID(id) + 1, s: s})
	}
	for _, p := range s.replicas {
		p.start()
	}
	s.mail = nil // they have told each other that they are here
	return s
}

// GroupOf names the first members.
func GroupOf(n int) bft.Group {
	group := bft.Group{}
	for id := range n {
		group.Members = append(group.Members, bft.ID(id)+1)
	}
	return group
}

// Duration reads an argument.
func Duration(t *testing.T, d *datadriven.TestData, name string, or time.Duration) time.Duration {
	if !d.HasArg(name) {
		return or
	}
	var text string
	d.ScanArgs(t, name, &text)
	length, err := time.ParseDuration(text)
	require.NoError(t, err)
	return length
}

// Walk runs all scripts in a folder.
func Walk(t *testing.T, folder string, begin Begin) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		run(t, path, begin, func(d *datadriven.TestData, s *Script) string { return s.do(d) })
	})
}

// ThatNotices names a script in testdata whose output is another with this beginning; "": there is none.
func ThatNotices(t *testing.T, begin Begin) string {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		differs := false
		run(t, filepath.Join("testdata", f.Name()), begin, func(d *datadriven.TestData, s *Script) string {
			if !differs && strings.TrimSpace(s.do(d)) != strings.TrimSpace(d.Expected) {
				differs = true
			}
			return d.Expected
		})
		if differs {
			return f.Name()
		}
	}
	return ""
}

func run(t *testing.T, path string, begin Begin, do func(*datadriven.TestData, *Script) string) {
	var s *Script
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "new" {
			s = begin(t, d)
		}
		s.T = t
		return do(d, s)
	})
}

// Say adds a line to the output.
func (s *Script) Say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// Post has a message wait for its delivery, as it is after it was encoded.
func (s *Script) Post(from bft.ID, out bft.Outgoing) {
	m, err := s.protocol.Decode(s.protocol.Encode(out.Message))
	require.NoError(s.T, err)
	out.Message = m
	s.mail = append(s.mail, mail{from, out})
	s.sent = append(s.sent, mail{from, out})
}

// PostOthers has a message wait for everybody but its sender.
func (s *Script) PostOthers(from bft.ID, m bft.Message) {
	for _, other := range s.replicas {
		if other.ID != from {
			s.Post(from, bft.Outgoing{To: other.ID, Message: m})
		}
	}
}

// Overheard is the last message that was sent and is so, or none.
func Overheard[M bft.Message](s *Script, is func(M) bool) (found M, ok bool) {
	for _, m := range slices.Backward(s.sent) {
		if found, ok = m.out.Message.(M); ok && is(found) {
			return found, true
		}
	}
	return found, false
}

// Number reads a word of a line.
func (s *Script) Number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	require.NoError(s.T, err, word)
	return n
}

// changes is what is different from the time before.
func (s *Script) changes() string {
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
