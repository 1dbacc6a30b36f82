package channelconfig

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// consentersOf reads "a1 b2x": one at host a with TLS certificate 1, one at b with 2 and identity x, and so on.
func consentersOf(text string) *Orderer {
	o := &Orderer{Identities: map[uint32][]byte{}}
	for i, word := range strings.Fields(text) {
		tls := []byte(word[1:2])
		o.Consenters = append(o.Consenters, &etcdraftpb.Consenter{Host: word[:1], Port: 7, ClientTlsCert: tls, ServerTlsCert: tls})
		o.Numbers = append(o.Numbers, uint32(i)+1)
		o.Identities[uint32(i)+1] = []byte(word[2:])
	}
	return o
}

func TestIDsOfConsenters(t *testing.T) {
	for _, test := range []struct {
		name, now, next string
		ids             []uint64
		then            []uint64
		change          Change
		refused         string
	}{
		{"nothing", "a1 b2 c3", "a1 b2 c3", []uint64{1, 2, 3}, []uint64{1, 2, 3}, Change{}, ""},
		{"another order", "a1 b2 c3", "c3 a1 b2", []uint64{1, 2, 3}, []uint64{3, 1, 2}, Change{}, ""},
		{"one more", "a1 b2 c3", "a1 b2 c3 d4", []uint64{1, 2, 3}, []uint64{1, 2, 3, 9}, Change{Added: 9}, ""},
		{"one more in the middle", "a1 b2", "a1 d4 b2", []uint64{5, 2}, []uint64{5, 9, 2}, Change{Added: 9}, ""},
		{"one less", "a1 b2 c3", "a1 c3", []uint64{1, 7, 3}, []uint64{1, 3}, Change{Removed: 7}, ""},
		{"another certificate", "a1 b2 c3", "a1 b9 c3", []uint64{1, 2, 3}, []uint64{1, 2, 3}, Change{Rotated: 2}, ""},
		{"another address", "a1 b2 c3", "a1 c3 z2", []uint64{1, 2, 3}, []uint64{1, 3, 2}, Change{Rotated: 2}, ""},
		{"another node in its place", "a1 b2 c3", "a1 c3 z9", []uint64{1, 2, 3}, nil, Change{}, "adds 1 consenters and removes 1"},
		{"two more", "a1", "a1 b2 c3", []uint64{1}, nil, Change{}, "adds 2 consenters and removes 0: one at a time"},
		{"two less", "a1 b2 c3", "b2", []uint64{1, 2, 3}, nil, Change{}, "adds 0 consenters and removes 2"},
		{"two certificates", "a1 b2 c3", "a8 b9 c3", []uint64{1, 2, 3}, nil, Change{}, "one at a time"},
		{"another identity", "a1x b2y", "a1x b2z", []uint64{1, 2}, []uint64{1, 2}, Change{Rotated: 2}, ""},
		{"two identities", "a1w b2x c3y", "a1s b2t c3y", []uint64{1, 2, 3}, nil, Change{}, "adds 2 consenters and removes 2"},
		{"identities exchanged", "a1x b2y", "a1y b2x", []uint64{1, 2}, nil, Change{}, "one at a time"},
		{"another identity and one more", "a1x b2y", "a1x b2z c3w", []uint64{1, 2}, nil, Change{}, "one at a time"},
		{"twice the same", "a1", "a1 a1", []uint64{1}, []uint64{1, 9}, Change{Added: 9}, ""},
		{"ids of others", "a1 b2", "a1", []uint64{1}, nil, Change{}, "1 ids of 2 consenters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, change, err := Membership{IDs: test.ids, Next: 9}.Become(consentersOf(test.now), consentersOf(test.next))
			if test.refused != "" {
				require.ErrorIs(t, err, ErrInvalid)
				assert.ErrorContains(t, err, test.refused)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.then, got.IDs)
			assert.Equal(t, test.change, change)
			assert.Equal(t, map[bool]uint64{false: 9, true: 10}[change.Added != 0], got.Next)
		})
	}
}

// TestIDsAreNeverGivenTwice goes through random histories of single changes.
func TestIDsAreNeverGivenTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		now := consentersOf("a1 b2 c3").Consenters
		m := FirstMembership(now)
		owner := map[uint64]string{}
		for step := range 100 {
			next := slices.Clone(now)
			switch at := rng.IntN(len(now)); {
			case rng.IntN(2) == 0:
				next = slices.Insert(next, at, &etcdraftpb.Consenter{Host: fmt.Sprint("new", step), Port: 7})
			case len(next) > 1:
				next = slices.Delete(next, at, at+1)
			}
			var err error
			m, _, err = m.Become(&Orderer{Consenters: now}, &Orderer{Consenters: next})
			require.NoError(t, err)
			now = next
			seen := map[uint64]bool{}
			for i, c := range now {
				assert.False(t, seen[m.IDs[i]])
				assert.Less(t, m.IDs[i], m.Next)
				seen[m.IDs[i]] = true
				if first, known := owner[m.IDs[i]]; known {
					assert.Equal(t, first, c.Host)
				}
				owner[m.IDs[i]] = c.Host
			}
		}
	}
}

func TestConsentersComeAndGoByPatch(t *testing.T) {
	c := newChannel(t)
	issue := func(authority *ca.Authority, request ca.Request) string {
		request.Hosts = []string{"localhost"}
		cert, _, err := authority.Issue(request)
		require.NoError(t, err)
		return string(cert)
	}
	orderers := c.world["OrdererMSP"]
	updated := func(patch ...ConsenterPatch) error {
		_, err := c.bundle.Updated(c.update(Patch{Consenters: patch}, c.admins("OrdererMSP")...), time.Now())
		return err
	}
	fresh := ConsenterPatch{Address: "127.0.0.1:7060", TLSCert: issue(orderers, ca.Request{CommonName: "orderer2"})}
	foreign, expired, again, other := fresh, fresh, fresh, fresh
	foreign.TLSCert = issue(c.world["Org1MSP"], ca.Request{CommonName: "orderer2"})
	expired.TLSCert = issue(orderers, ca.Request{CommonName: "orderer2", NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour)})
	other.Address, other.TLSCert = "127.0.0.1:7061", issue(orderers, ca.Request{CommonName: "orderer3"})
	assert.ErrorContains(t, updated(foreign), "consenter 127.0.0.1:7060: its TLS client certificate: x509: certificate signed by unknown authority")
	assert.ErrorContains(t, updated(expired), "expired")
	assert.ErrorContains(t, updated(fresh, other), "adds 2 consenters and removes 0: one at a time is accepted")
	assert.ErrorContains(t, updated(ConsenterPatch{Address: "127.0.0.1:7060", TLSCert: "no certificate"}), "its TLS client certificate: PEM is accepted")
	assert.ErrorContains(t, updated(ConsenterPatch{Address: "127.0.0.1:7050", Remove: true}), "etcdraft has no consenters")
	_, err := (&Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:7070", Remove: true}}}).Apply(c.bundle.Config)
	assert.ErrorContains(t, err, "consenter 127.0.0.1:7070: one that the channel has is accepted")

	c.become(c.update(Patch{Consenters: []ConsenterPatch{fresh}}, c.admins("OrdererMSP")...))
	require.Len(t, c.bundle.Orderer.Consenters, 2)
	assert.Contains(t, c.bundle.Orderer.Addresses, fresh.Address, "peers and clients find it")
	again.Address = "127.0.0.1:7062"
	assert.ErrorContains(t, updated(again), "its TLS client certificate is another consenter's")
	again.TLSCert += "\n" // the same certificate, in other words
	assert.ErrorContains(t, updated(again), "its TLS client certificate is another consenter's")
	fresh.TLSCert, fresh.Rotate = issue(orderers, ca.Request{CommonName: "orderer2"}), true
	c.become(c.update(Patch{Consenters: []ConsenterPatch{fresh}}, c.admins("OrdererMSP")...))
	assert.Equal(t, fresh.TLSCert, string(c.bundle.Orderer.Consenters[1].ServerTlsCert))
	c.become(c.update(Patch{Consenters: []ConsenterPatch{{Address: fresh.Address, Remove: true}}}, c.admins("OrdererMSP")...))
	assert.Len(t, c.bundle.Orderer.Consenters, 1)
	assert.NotContains(t, c.bundle.Orderer.Addresses, fresh.Address)
}
