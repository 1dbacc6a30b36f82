package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// people makes identities by name: "1.peer.a" is a peer of Org1MSP, other suffixes are other persons.
func people(t testing.TB) func(names string) []*identity.Identity {
	t.Helper()
	authorities := map[string]*ca.Authority{}
	var orgs []identity.OrgConfig
	for _, n := range []string{"1", "2", "3"} {
		a, err := ca.New("ca", "org"+n)
		require.NoError(t, err)
		authorities[n] = a
		orgs = append(orgs, identity.OrgConfig{MSPID: "Org" + n + "MSP", RootCerts: [][]byte{a.CertPEM()}, OUs: identity.DefaultOUs()})
	}
	m, err := identity.NewManager(orgs...)
	require.NoError(t, err)
	known := map[string]*identity.Identity{}
	return func(names string) []*identity.Identity {
		var out []*identity.Identity
		for _, name := range strings.Fields(names) {
			if known[name] == nil {
				parts := strings.Split(name, ".")
				cert, key, err := authorities[parts[0]].Issue(ca.Request{CommonName: name, Unit: parts[1]})
				require.NoError(t, err)
				s, err := identity.NewSigner("Org"+parts[0]+"MSP", cert, key)
				require.NoError(t, err)
				known[name], err = m.Deserialize(s.Serialized())
				require.NoError(t, err)
			}
			out = append(out, known[name])
		}
		return out
	}
}

func compile(t testing.TB, text string) *Policy {
	t.Helper()
	env, err := Parse(text)
	require.NoError(t, err)
	p, err := Compile(env)
	require.NoError(t, err)
	return p
}

func TestEvaluate(t *testing.T) {
	who := people(t)
	for _, c := range []struct {
		policy, signers string
		want            bool
	}{
		{"OR('Org1MSP.peer','Org2MSP.peer')", "2.peer", true},
		{"OR('Org1MSP.peer','Org2MSP.peer')", "3.peer", false},
		{"OR('Org1MSP.peer','Org2MSP.peer')", "1.client", false},
		{"OR('Org1MSP.member')", "1.client", true},
		{"AND('Org1MSP.peer','Org2MSP.peer')", "1.peer", false},
		{"AND('Org1MSP.peer','Org2MSP.peer')", "2.peer 1.peer", true},
		{"AND('Org1MSP.peer','Org1MSP.peer')", "1.peer", false},
		{"AND('Org1MSP.peer','Org1MSP.peer')", "1.peer 1.peer", false},
		{"AND('Org1MSP.peer','Org1MSP.peer')", "1.peer.a 1.peer.b", true},
		{"OutOf(2,'Org1MSP.peer','Org2MSP.peer','Org3MSP.peer')", "1.peer 3.peer", true},
		{"OutOf(2,'Org1MSP.peer','Org2MSP.peer','Org3MSP.peer')", "1.peer 1.peer.b", false},
		{"AND('Org1MSP.admin', OR('Org2MSP.peer', OutOf(2,'Org3MSP.peer','Org3MSP.client')))", "1.admin 3.peer 3.client", true},
		{"AND('Org1MSP.admin', OR('Org2MSP.peer', OutOf(2,'Org3MSP.peer','Org3MSP.client')))", "1.admin 3.peer", false},
		// A nested rule that fails gives back what it had taken.
		{"OutOf(1, AND('Org1MSP.peer','Org2MSP.peer'), 'Org1MSP.peer')", "1.peer", true},
		// One that holds keeps it.
		{"AND(OR('Org1MSP.peer'),'Org1MSP.peer')", "1.peer", false},
		{"AND(OR('Org1MSP.peer'),'Org1MSP.peer')", "1.peer.a 1.peer.b", true},
		// One person is not two principals.
		{"AND('Org1MSP.member','Org1MSP.peer')", "1.peer", false},
		{"AND('Org1MSP.peer','Org1MSP.member')", "1.client 1.peer", true},
		{"OR('Org1MSP.peer')", "", false},
		// Fabric's tools take both quotes.
		{`AND("Org1MSP.peer",'Org2MSP.peer')`, "2.peer 1.peer", true},
		{`OutOf("1", "Org1MSP.peer")`, "1.peer", true},
	} {
		assert.Equal(t, c.want, compile(t, c.policy).Evaluate(who(c.signers)), "%s signed by %q", c.policy, c.signers)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "peer", "'Org1MSP'", "'Org1MSP.king'", "AND()", "AND('A.peer'", "AND('A.peer' 'B.peer')", "XOR('A.peer')",
		"OutOf('A.peer')", "OutOf(3,'A.peer')", "OutOf(0,'A.peer')", "OR('A.peer'))", "OR('A.peer", `OR('A.peer")`, strings.Repeat("OR(", 40),
	} {
		_, err := Parse(text)
		require.ErrorIs(t, err, ErrMalformed, text)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestCompileRefuses(t *testing.T) {
	good, err := Parse("OR('Org1MSP.peer')")
	require.NoError(t, err)
	deep := &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_SignedBy{}}
	for range maxDepth + 1 {
		deep = outOf(1, []*commonpb.SignaturePolicy{deep})
	}
	wide := make([]*commonpb.SignaturePolicy, maxRules)
	for i := range wide {
		wide[i] = &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_SignedBy{}}
	}
	for name, change := range map[string]func(*commonpb.SignaturePolicyEnvelope){
		"version":           func(e *commonpb.SignaturePolicyEnvelope) { e.Version = 1 },
		"no rule":           func(e *commonpb.SignaturePolicyEnvelope) { e.Rule = nil },
		"unknown principal": func(e *commonpb.SignaturePolicyEnvelope) { e.Identities = nil },
		"negative n":        func(e *commonpb.SignaturePolicyEnvelope) { e.Rule.GetNOutOf().N = -1 },
		"n too large":       func(e *commonpb.SignaturePolicyEnvelope) { e.Rule.GetNOutOf().N = 2 },
		"too deep":          func(e *commonpb.SignaturePolicyEnvelope) { e.Rule = deep },
		"too wide":          func(e *commonpb.SignaturePolicyEnvelope) { e.Rule = outOf(1, wide) },
		"class": func(e *commonpb.SignaturePolicyEnvelope) {
			e.Identities[0].PrincipalClassification = commonpb.MSPPrincipal_IDENTITY
		},
		"principal bytes": func(e *commonpb.SignaturePolicyEnvelope) { e.Identities[0].Principal = []byte{0xff} },
	} {
		env := proto.Clone(good).(*commonpb.SignaturePolicyEnvelope)
		change(env)
		_, err := Compile(env)
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
	_, err = Compile(nil)
	assert.ErrorIs(t, err, ErrMalformed)
}

func TestLayoutsAreSufficientAndSmallestFirst(t *testing.T) {
	who := people(t)
	p := compile(t, "OR(AND('Org1MSP.peer','Org2MSP.peer'), OutOf(2,'Org3MSP.peer','Org3MSP.peer'), 'Org2MSP.admin')")
	layouts := p.Layouts()
	require.Len(t, layouts, 3)
	assert.Equal(t, Layout{{MSPID: "Org2MSP", Role: identity.Admin}: 1}, layouts[0])
	for _, layout := range layouts {
		var names []string
		for principal, n := range layout {
			for i := range n {
				names = append(names, principal.MSPID[3:4]+"."+principal.Role.String()+"."+string(rune('a'+i)))
			}
		}
		assert.True(t, p.Evaluate(who(strings.Join(names, " "))), layout)
		assert.False(t, p.Evaluate(who(strings.Join(names[1:], " "))), layout)
	}
}

// TestLayoutsLeaveOutOrganisationsOfALargePolicy, which a gateway then has by name.
func TestLayoutsLeaveOutOrganisationsOfALargePolicy(t *testing.T) {
	var peers, want []string
	for n := range 20 {
		want = append(want, fmt.Sprintf("Org%02dMSP", n))
		peers = append(peers, "'"+want[n]+".peer'")
	}
	slices.Reverse(peers)
	p := compile(t, "OutOf(11,"+strings.Join(append(peers, peers...), ",")+")")
	layouts := p.Layouts()
	require.Len(t, layouts, maxLayouts)
	last := Principal{MSPID: want[0], Role: identity.Peer}
	assert.False(t, slices.ContainsFunc(layouts, func(l Layout) bool { return l[last] > 0 }))
	assert.Equal(t, want, p.Organisations())
}

// TestAChoiceOfManyPrincipalsHasFewLayouts, whoever has written it: every node would keep them.
func TestAChoiceOfManyPrincipalsHasFewLayouts(t *testing.T) {
	peers := func(from, to int) (out []string) {
		for n := range to - from {
			out = append(out, fmt.Sprintf("'Org%04dMSP.peer'", from+n))
		}
		return out
	}
	half := func(peers []string) string {
		return fmt.Sprintf("OutOf(%d,%s)", len(peers)/2, strings.Join(peers, ","))
	}
	var nested []string
	for at := range 30 {
		nested = append(nested, half(peers(30*at, 30*at+30)))
	}
	for text, size := range map[string]int{half(peers(0, 1022)): 511, half(nested): 15 * 15, "AND(" + strings.Join(nested, ",") + ")": 30 * 15} {
		layouts := compile(t, text).Layouts()
		require.NotEmpty(t, layouts)
		principals := 0
		for _, l := range layouts {
			assert.Len(t, l, size)
			principals += len(l)
		}
		assert.LessOrEqual(t, principals, maxPrincipals)
	}
	// What a search makes on its way counts as well.
	p := compile(t, half(peers(0, 1022)))
	made := testing.AllocsPerRun(1, func() { p.Layouts() })
	assert.Less(t, made, 100_000.0)
}

func FuzzParse(f *testing.F) {
	f.Add("AND('Org1MSP.peer', OutOf(1,'Org2MSP.member','Org3MSP.admin'))")
	f.Fuzz(func(t *testing.T, text string) {
		env, err := Parse(text)
		if err != nil {
			return
		}
		if _, err := Compile(env); err != nil {
			t.Fatalf("%q parses but does not compile: %s", text, err)
		}
	})
}

func TestCheckOrganisations(t *testing.T) {
	env, err := Parse("OR('Org1MSP.peer', AND('Org2MSP.peer','Org3MSP.member'))")
	require.NoError(t, err)
	require.NoError(t, CheckOrganisations(env, []string{"Org1MSP", "Org2MSP", "Org3MSP"}))
	require.ErrorContains(t, CheckOrganisations(env, []string{"Org1MSP", "Org2MSP"}), "the policy names Org3MSP: Org1MSP, Org2MSP are accepted")
}
