package channelconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
)

// Membership gives a channel's consenters their Raft ids. It stands in the metadata of every block,
// as Fabric has it. An id belongs to one consenter for ever and is not given to another later.
type Membership struct {
	IDs  []uint64 // of the configuration's consenters, in its order
	Next uint64   // the id of the next consenter that is added
}

// Change is what a new configuration does to the consenters: at most one of these is not 0.
type Change struct {
	Added, Removed uint64
	Rotated        uint64 // the same consenter, with another certificate, TLS or of its identity, or at another address
}

// FirstMembership is the one of a channel's first configuration.
func FirstMembership(consenters []*etcdraftpb.Consenter) Membership {
	m := Membership{Next: uint64(len(consenters)) + 1}
	for i := range consenters {
		m.IDs = append(m.IDs, uint64(i)+1)
	}
	return m
}

// Become gives the ids of the next consenters, and the one thing that has changed. It errs
// where more than one is added, removed or replaced: two majorities without a common member could result.
func (m Membership) Become(nowBy, nextBy *Orderer) (Membership, Change, error) {
	now, next := nowBy.Consenters, nextBy.Consenters
	if len(m.IDs) != len(now) {
		return m, Change{}, fmt.Errorf("%w: %d ids of %d consenters", ErrInvalid, len(m.IDs), len(now))
	}
	out := Membership{Next: m.Next, IDs: make([]uint64, len(next))}
	stays := make([]bool, len(now))
	var added []int
	for i := range next {
		at := nextBy.unchanged(i, nowBy)
		if at < 0 || stays[at] {
			added = append(added, i)
			continue
		}
		stays[at], out.IDs[i] = true, m.IDs[at]
	}
	var removed []int
	for i := range now {
		if !stays[i] {
			removed = append(removed, i)
		}
	}
	switch {
	case len(added) == 0 && len(removed) == 0:
		return out, Change{}, nil
	case len(added) == 1 && len(removed) == 0:
		out.IDs[added[0]] = out.Next
		out.Next++
		return out, Change{Added: m.Next}, nil
	case len(added) == 0 && len(removed) == 1:
		return out, Change{Removed: m.IDs[removed[0]]}, nil
	case len(added) == 1 && len(removed) == 1 && sameConsenter(now[removed[0]], next[added[0]]):
		out.IDs[added[0]] = m.IDs[removed[0]]
		return out, Change{Rotated: m.IDs[removed[0]]}, nil
	}
	return m, Change{}, fmt.Errorf("%w: it adds %d consenters and removes %d: one at a time is accepted", ErrInvalid, len(added), len(removed))
}

// unchanged is the place that a consenter had before, with the same addresses, certificates and identity; -1: none.
func (o *Orderer) unchanged(at int, before *Orderer) int {
	for i, old := range before.Consenters {
		if proto.Equal(old, o.Consenters[at]) && bytes.Equal(before.identity(i), o.identity(at)) {
			return i
		}
	}
	return -1
}

// identity is what a consenter signs as; nil where the configuration does not say.
func (o *Orderer) identity(at int) []byte {
	if at >= len(o.Numbers) {
		return nil
	}
	return o.Identities[o.Numbers[at]]
}

// names reports whether a consenter signs as this identity, given as it is serialized.
func (o *Orderer) names(serialized []byte) bool {
	for i := range o.Consenters {
		if bytes.Equal(o.identity(i), serialized) {
			return true
		}
	}
	return false
}

// sameConsenter reports whether a replaced entry is the same consenter: it keeps its address, or its
// certificates. Another node in its place must not have its id: it would not know what the id has promised.
func sameConsenter(a, b *etcdraftpb.Consenter) bool {
	return ConsenterAddress(a) == ConsenterAddress(b) ||
		len(a.ServerTlsCert) > 0 && bytes.Equal(a.ClientTlsCert, b.ClientTlsCert) && bytes.Equal(a.ServerTlsCert, b.ServerTlsCert)
}

// ConsenterAddress is where a consenter is found, host:port.
func ConsenterAddress(c *etcdraftpb.Consenter) string {
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

// IsConsenter reports whether a consenter has this address.
func (o *Orderer) IsConsenter(address string) bool {
	return slices.ContainsFunc(o.Consenters, func(c *etcdraftpb.Consenter) bool { return ConsenterAddress(c) == address })
}

// ServerCertificate is the TLS certificate, DER, of the consenter at an address; nil where none is there.
func (o *Orderer) ServerCertificate(address string) []byte {
	for _, c := range o.Consenters {
		if ConsenterAddress(c) == address {
			return CertificateDER(c.ServerTlsCert)
		}
	}
	return nil
}

// checkConsenters refuses consenters that the others could not reach, tell apart or trust. Of unchanged ones only the
// authorities are checked again: their certificates may have expired since.
func (b *Bundle) checkConsenters(to *Bundle, at time.Time) error {
	now, next := &b.Orderer, &to.Orderer
	addresses, holders := map[string]bool{}, map[string]int{}
	for _, c := range next.Consenters {
		client, server := string(CertificateDER(c.ClientTlsCert)), string(CertificateDER(c.ServerTlsCert))
		holders[client]++
		if server != client {
			holders[server]++
		}
	}
	for i, c := range next.Consenters {
		address := ConsenterAddress(c)
		if c.Host == "" || c.Port == 0 || c.Port > 65535 || addresses[address] {
			return fmt.Errorf("%w: consenter %q: an address host:port of its own is accepted", ErrInvalid, address)
		}
		addresses[address] = true
		if err := b.checkCounts(to, i); err != nil {
			return fmt.Errorf("%w: consenter %s: its identity: %w", ErrInvalid, address, err)
		}
		sides := []struct {
			name string
			text []byte
		}{{"client", c.ClientTlsCert}, {"server", c.ServerTlsCert}}
		for _, side := range sides {
			if err := checkRoots(side.text, now.TLSRoots, next.TLSRoots, at); err != nil {
				return fmt.Errorf("%w: consenter %s: its TLS %s certificate: %w", ErrInvalid, address, side.name, err)
			}
		}
		if next.unchanged(i, now) >= 0 {
			continue
		}
		if err := b.checkIdentity(to, i, at); err != nil {
			return fmt.Errorf("%w: consenter %s: its identity: %w", ErrInvalid, address, err)
		}
		for _, side := range sides {
			if err := checkCertificate(side.text, next.TLSRoots, at); err != nil {
				return fmt.Errorf("%w: consenter %s: its TLS %s certificate: %w", ErrInvalid, address, side.name, err)
			}
			if holders[string(CertificateDER(side.text))] > 1 {
				return fmt.Errorf("%w: consenter %s: its TLS %s certificate is another consenter's", ErrInvalid, address, side.name)
			}
		}
	}
	return nil
}

// checkCounts refuses an organisation without the authority of a consenter's identity, or with its revocation: nothing that
// the consenter signs would count. Where that is so already, other updates go on.
func (b *Bundle) checkCounts(to *Bundle, at int) error {
	own := to.Orderer.identity(at)
	if _, err := b.MSP.DeserializeUndated(own); err != nil {
		return nil
	}
	_, err := to.MSP.DeserializeUndated(own)
	return err
}

// checkIdentity refuses an identity whose signatures would not count, or would count twice. One that a consenter has had is
// not checked again.
func (b *Bundle) checkIdentity(to *Bundle, at int, when time.Time) error {
	own := to.Orderer.identity(at)
	for i := range to.Orderer.Consenters {
		if i != at && own != nil && sameCertificate(to.Orderer.identity(i), own) {
			return errors.New("it is another consenter's")
		}
	}
	for i := range b.Orderer.Consenters {
		if bytes.Equal(b.Orderer.identity(i), own) {
			return nil
		}
	}
	_, err := to.MSP.DeserializeAt(own, when)
	return err
}

// sameCertificate reports whether two identities have one certificate, of which there may be several texts.
func sameCertificate(a, b []byte) bool {
	var left, right msppb.SerializedIdentity
	if protoutil.Unmarshal(a, &left) != nil || protoutil.Unmarshal(b, &right) != nil {
		return false
	}
	der := CertificateDER(left.IdBytes)
	return der != nil && bytes.Equal(der, CertificateDER(right.IdBytes))
}

// CertificateDER decodes a certificate's PEM, of which one certificate may have several; nil where it is none.
func CertificateDER(text []byte) []byte {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	return block.Bytes
}

func checkCertificate(text []byte, roots *x509.CertPool, at time.Time) error {
	cert, err := parseCertificate(text)
	if err != nil {
		return err
	}
	return verify(cert, roots, at)
}

// checkRoots refuses roots without the authority of a certificate: the others would connect to its consenter no more.
// Where that is so already, other updates go on. An expired certificate counts as of its last moment: a consenter stays
// connected beyond it.
func checkRoots(text []byte, now, next *x509.CertPool, at time.Time) error {
	cert, err := parseCertificate(text)
	if err != nil {
		return nil
	}
	switch {
	case at.Before(cert.NotBefore):
		at = cert.NotBefore
	case at.After(cert.NotAfter):
		at = cert.NotAfter
	}
	if verify(cert, now, at) != nil {
		return nil
	}
	return verify(cert, next, at)
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	der := CertificateDER(text)
	if der == nil {
		return nil, errors.New("PEM is accepted")
	}
	return x509.ParseCertificate(der)
}

func verify(cert *x509.Certificate, roots *x509.CertPool, at time.Time) error {
	_, err := cert.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}
