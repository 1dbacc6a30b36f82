package chain

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// script is a peer's chain under a story told in testdata. Its commands:
//
//	endorse NAME [cc=kv|both] [by=Org1MSP+Org2MSP] [spoil=WHAT]   simulate on the state of now, and keep the transaction;
//	    the input is a list of `get K`, `put K V`, `del K`, `range A B [LIMIT]` (- for an open end), each perhaps
//	    with another chaincode's name in front (`both: put k v`); the output is what was read
//	order    the input is a list of names: they arrive in this order, a name twice is the same envelope again,
//	    a name with a ! a copy under a forged signature; the output is the verdict on each
//	seal     end the open block
//	restart  stop, and begin again with what is on disk
//	state    every key with its value and version
//
// The slow validator is told the same and must agree on each verdict, and on the state after it.
type script struct {
	t    *testing.T
	w    *peertest.World
	rig  *rig
	slow *slowValidator
	made map[string][]byte
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := streamWorld(t)
		s := &script{
			t: t, w: w, rig: startRig(t, w, t.TempDir(), Options{Workers: 2}), made: map[string][]byte{},
			slow: newSlowValidator(w),
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "endorse":
				return s.endorse(d)
			case "order":
				return s.order(strings.Fields(d.Input))
			case "seal":
				s.rig.seal()
				s.rig.settle()
				return ""
			case "restart":
				return s.restart()
			case "state":
				return s.state()
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

func (s *script) endorse(d *datadriven.TestData) string {
	chaincode, by, spoil := "kv", "Org1MSP", ""
	for name, value := range map[string]*string{"cc": &chaincode, "by": &by, "spoil": &spoil} {
		d.MaybeScanArgs(s.t, name, value)
	}
	tx := peertest.Tx{Chaincode: chaincode, Endorsers: []*identity.SigningIdentity{}}
	for _, msp := range strings.Split(by, "+") {
		tx.Endorsers = append(tx.Endorsers, s.w.Signer(msp, "peer"))
	}
	if spoil != "" {
		tx.Change = s.spoil(spoil)
	}
	var out strings.Builder
	tx.Results = s.w.Simulate(s.rig.Snapshot(), func(sim *rwset.Simulator) {
		for _, line := range strings.Split(d.Input, "\n") {
			namespace := chaincode
			if other, rest, found := strings.Cut(line, ": "); found {
				namespace, line = other, rest
			}
			out.WriteString(s.simulate(sim, namespace, strings.Fields(line)))
		}
	})
	s.made[d.CmdArgs[0].Key], _ = s.w.Make(tx)
	return out.String()
}

func (s *script) simulate(sim *rwset.Simulator, namespace string, words []string) string {
	switch {
	case len(words) == 0:
		return ""
	case words[0] == "get" && len(words) == 2:
		value, err := sim.Get(namespace, words[1])
		require.NoError(s.t, err)
		return fmt.Sprintf("%s=%s\n", words[1], value)
	case words[0] == "put" && len(words) == 3:
		require.NoError(s.t, sim.Put(namespace, words[1], []byte(words[2])))
	case words[0] == "del" && len(words) == 2:
		require.NoError(s.t, sim.Delete(namespace, words[1]))
	case words[0] == "range" && len(words) >= 3:
		limit := 100
		if len(words) == 4 {
			var err error
			limit, err = strconv.Atoi(words[3])
			require.NoError(s.t, err)
		}
		end := strings.TrimPrefix(words[2], "-")
		entries, more, err := sim.Range(namespace, words[1], end).Next(limit)
		require.NoError(s.t, err)
		keys := make([]string, len(entries))
		for i, e := range entries {
			keys[i] = e.Key + "=" + string(e.Value)
		}
		return fmt.Sprintf("%s more=%t\n", strings.Join(keys, " "), more)
	default:
		s.t.Fatalf("unknown call %q", words)
	}
	return ""
}

// spoil changes a transaction so that one rule refuses it.
func (s *script) spoil(what string) func(*peertest.Parts) {
	changes := map[string]func(*peertest.Parts){
		"client-signature": func(p *peertest.Parts) { p.Envelope = func(e *commonpb.Envelope) { e.Signature[8]++ } },
		"endorser-signature": func(p *peertest.Parts) {
			p.Endorse = func(all []*peerpb.Endorsement) []*peerpb.Endorsement { all[0].Signature[8]++; return all }
		},
		"no-endorsement": func(p *peertest.Parts) { p.Endorse = func([]*peerpb.Endorsement) []*peerpb.Endorsement { return nil } },
		"one-endorser-twice": func(p *peertest.Parts) {
			p.Endorse = func(all []*peerpb.Endorsement) []*peerpb.Endorsement { return append(all[:1], all[0]) }
		},
		"other-proposal": func(p *peertest.Parts) { p.Response.ProposalHash = make([]byte, 32) },
		"other-channel":  func(p *peertest.Parts) { p.Channel.ChannelId = "elsewhere" },
		"no-action":      func(p *peertest.Parts) { p.Actions = 0 },
		"two-actions":    func(p *peertest.Parts) { p.Actions = 2 },
	}
	change := changes[what]
	require.NotNil(s.t, change, "spoil=%s", what)
	return change
}

func (s *script) order(names []string) string {
	var out strings.Builder
	for _, name := range names {
		raw := s.made[strings.TrimSuffix(name, "!")]
		require.NotNil(s.t, raw, "%s was not endorsed", name)
		if strings.HasSuffix(name, "!") {
			raw = s.forged(raw)
		}
		at := s.rig.Position()
		s.rig.add(raw)
		s.rig.settle()
		// Settled, the pipeline rests: nobody else looks at the open block's verdicts.
		code := Code(s.rig.ledger.flags[at.Tx])
		require.Equal(s.t, s.slow.verdict(raw, at).String(), code.String(), "the slow validator's verdict on %s", name)
		require.Equal(s.t, s.slow.state(), stateOf(s.rig.Snapshot()), "the slow validator's state after %s", name)
		fmt.Fprintf(&out, "%d.%d %s: %s\n", at.Block, at.Tx, name, code)
	}
	return out.String()
}

// forged is an envelope under a signature that is not the client's.
func (s *script) forged(raw []byte) []byte {
	var env commonpb.Envelope
	require.NoError(s.t, proto.Unmarshal(raw, &env))
	env.Signature[8]++
	out, err := proto.Marshal(&env)
	require.NoError(s.t, err)
	return out
}

func (s *script) restart() string {
	orders, open, before := s.rig.orders, s.rig.open, s.rig.Snapshot().Hash()
	require.NoError(s.t, s.rig.stop())
	s.rig = startRig(s.t, s.w, s.rig.dir, Options{Workers: 2})
	s.rig.orders, s.rig.open = orders, open
	require.Equal(s.t, before, s.rig.Snapshot().Hash())
	at := s.rig.Position()
	return fmt.Sprintf("next is %d.%d\n", at.Block, at.Tx)
}

func (s *script) state() string {
	var out strings.Builder
	snapshot := s.rig.Snapshot()
	for _, namespace := range snapshot.Namespaces() {
		snapshot.Each(namespace, func(e statedb.Entry) bool {
			fmt.Fprintf(&out, "%s/%s=%s @%d.%d\n", namespace, e.Key, e.Value, e.Version.Block, e.Version.Tx)
			return true
		})
	}
	return out.String()
}
