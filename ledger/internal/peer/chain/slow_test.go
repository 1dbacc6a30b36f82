package chain

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
)

// slowValidator is the rule book: Fabric's rules in Fabric's order, one transaction after the other, with plain maps, the
// protobuf library, the standard library's cryptography, and nothing of what the fast path is made of. The fast path must
// agree with it. It knows endorser transactions alone.
//
// At two places it is not Fabric's: an id is taken by whoever made it and has signed for it, and not by a forger's copy; and
// a deletion of what is not there changes nothing for who has read so (docs/ledger.md, Contention).
type slowValidator struct {
	world *peertest.World
	keys  map[string]slowEntry // "namespace/key"
	ids   map[string]bool
	hash  []byte // running, where orderers may lie
}

// slowEntry is a key's value and the transaction that wrote it.
type slowEntry struct {
	value []byte
	at    slowVersion
}

type slowVersion struct {
	at   Position
	hash string
}

// slowPolicies are the endorsement policies of the test channel's chaincodes (peertest).
var slowPolicies = map[string]func(endorsers []string) bool{
	"kv": func(endorsers []string) bool {
		return slices.Contains(endorsers, "Org1MSP") || slices.Contains(endorsers, "Org2MSP")
	},
	"both": func(endorsers []string) bool {
		return slices.Contains(endorsers, "Org1MSP") && slices.Contains(endorsers, "Org2MSP")
	},
}

func newSlowValidator(w *peertest.World) *slowValidator {
	v := &slowValidator{world: w, keys: map[string]slowEntry{}, ids: map[string]bool{}}
	v.sealed(w.NewOrderer().Previous)
	return v
}

// sealed begins a block after one whose header has that hash.
func (v *slowValidator) sealed(hash []byte) {
	if len(v.world.Replicas) > 0 {
		v.hash = hash
	}
}

// version is that of what the next transaction writes.
func (v *slowValidator) version(raw []byte, at Position) slowVersion {
	if len(v.world.Replicas) == 0 {
		return slowVersion{at: at}
	}
	tx := sha256.Sum256(raw)
	hash := sha256.Sum256(slices.Concat(v.hash, tx[:]))
	v.hash = hash[:]
	return slowVersion{at, string(v.hash)}
}

func readVersion(v *kvrwsetpb.Version) slowVersion {
	return slowVersion{Position{v.BlockNum, v.TxNum}, string(v.RunningHash)}
}

// slowTx is a transaction taken apart.
type slowTx struct {
	env       commonpb.Envelope
	payload   commonpb.Payload
	channel   commonpb.ChannelHeader
	signature commonpb.SignatureHeader
	body      peerpb.Transaction
	action    peerpb.ChaincodeActionPayload
	response  peerpb.ProposalResponsePayload
	result    peerpb.ChaincodeAction
	sets      []slowSet
}

type slowSet struct {
	namespace string
	kv        kvrwsetpb.KVRWSet
}

// verdict judges the next transaction, and puts it into effect.
func (v *slowValidator) verdict(raw []byte, at Position) Code {
	version := v.version(raw, at)
	tx := &slowTx{}
	if code := v.form(tx, raw); code != valid {
		return code
	}
	when := tx.channel.Timestamp.AsTime()
	if !v.signed(tx.signature.Creator, tx.env.Payload, tx.env.Signature, when) {
		return peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE
	}
	id := sha256.Sum256(slices.Concat(tx.signature.Nonce, tx.signature.Creator))
	if tx.channel.TxId != hex.EncodeToString(id[:]) {
		return peerpb.TxValidationCode_BAD_PROPOSAL_TXID
	}
	if v.ids[tx.channel.TxId] {
		return peerpb.TxValidationCode_DUPLICATE_TXID
	}
	v.ids[tx.channel.TxId] = true
	for _, rule := range []func(*slowTx) Code{v.proposal, v.endorsed, v.conflicts} {
		if code := rule(tx); code != valid {
			return code
		}
	}
	for i := range tx.sets {
		for _, w := range tx.sets[i].kv.Writes {
			key := tx.sets[i].namespace + "/" + w.Key
			if w.IsDelete || len(w.Value) == 0 {
				delete(v.keys, key)
			} else {
				v.keys[key] = slowEntry{w.Value, version}
			}
		}
	}
	return valid
}

// form reads the envelope and its headers.
func (v *slowValidator) form(tx *slowTx, raw []byte) Code {
	if len(raw) == 0 {
		return peerpb.TxValidationCode_NIL_ENVELOPE
	}
	if proto.Unmarshal(raw, &tx.env) != nil || proto.Unmarshal(tx.env.Payload, &tx.payload) != nil {
		return peerpb.TxValidationCode_BAD_PAYLOAD
	}
	header := tx.payload.Header
	switch {
	case header == nil, proto.Unmarshal(header.ChannelHeader, &tx.channel) != nil, proto.Unmarshal(header.SignatureHeader, &tx.signature) != nil:
		return peerpb.TxValidationCode_BAD_COMMON_HEADER
	case tx.channel.ChannelId != peertest.Channel:
		return peerpb.TxValidationCode_TARGET_CHAIN_NOT_FOUND
	case tx.channel.Type != int32(commonpb.HeaderType_ENDORSER_TRANSACTION):
		return peerpb.TxValidationCode_UNKNOWN_TX_TYPE
	case tx.channel.Epoch != 0, len(tx.signature.Nonce) == 0, len(tx.signature.Creator) == 0, tx.channel.Timestamp == nil:
		return peerpb.TxValidationCode_BAD_COMMON_HEADER
	}
	return valid
}

// proposal checks that there is one action, and that it is what was proposed under these headers.
func (v *slowValidator) proposal(tx *slowTx) Code {
	if proto.Unmarshal(tx.payload.Data, &tx.body) != nil || len(tx.body.Actions) != 1 {
		return peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	var signer commonpb.SignatureHeader
	if proto.Unmarshal(tx.body.Actions[0].Header, &signer) != nil || !proto.Equal(&signer, &tx.signature) ||
		proto.Unmarshal(tx.body.Actions[0].Payload, &tx.action) != nil || tx.action.Action == nil {
		return peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	if proto.Unmarshal(tx.action.Action.ProposalResponsePayload, &tx.response) != nil || proto.Unmarshal(tx.response.Extension, &tx.result) != nil {
		return peerpb.TxValidationCode_BAD_RESPONSE_PAYLOAD
	}
	header := tx.payload.Header
	hash := sha256.Sum256(slices.Concat(header.ChannelHeader, header.SignatureHeader, tx.action.ChaincodeProposalPayload))
	if !bytes.Equal(hash[:], tx.response.ProposalHash) {
		return peerpb.TxValidationCode_INVALID_ENDORSER_TRANSACTION
	}
	return valid
}

// endorsed asks the policy of the invoked chaincode, and that of each other one to whose namespace is written.
func (v *slowValidator) endorsed(tx *slowTx) Code {
	var extension peerpb.ChaincodeHeaderExtension
	if proto.Unmarshal(tx.channel.Extension, &extension) != nil || extension.GetChaincodeId().GetName() == "" {
		return peerpb.TxValidationCode_BAD_HEADER_EXTENSION
	}
	asked := []string{extension.ChaincodeId.Name}
	if tx.result.GetChaincodeId().GetName() != asked[0] || slowPolicies[asked[0]] == nil {
		return peerpb.TxValidationCode_INVALID_CHAINCODE
	}
	var results rwsetpb.TxReadWriteSet
	if proto.Unmarshal(tx.result.Results, &results) != nil {
		return peerpb.TxValidationCode_BAD_RWSET
	}
	tx.sets = make([]slowSet, len(results.NsRwset))
	for i, ns := range results.NsRwset {
		tx.sets[i].namespace = ns.Namespace
		if proto.Unmarshal(ns.Rwset, &tx.sets[i].kv) != nil {
			return peerpb.TxValidationCode_BAD_RWSET
		}
		if len(tx.sets[i].kv.Writes) > 0 {
			asked = append(asked, ns.Namespace)
		}
	}
	var endorsers []string
	for _, e := range tx.action.Action.Endorsements {
		if v.signed(e.Endorser, slices.Concat(tx.action.Action.ProposalResponsePayload, e.Endorser), e.Signature, tx.channel.Timestamp.AsTime()) {
			if msp, unit := v.whois(e.Endorser); unit == "peer" {
				endorsers = append(endorsers, msp)
			}
		}
	}
	for _, chaincode := range asked {
		if slowPolicies[chaincode] == nil {
			return peerpb.TxValidationCode_ILLEGAL_WRITESET
		}
		if !slowPolicies[chaincode](endorsers) {
			return peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE
		}
	}
	return valid
}

// whois is the organisation and the unit of a serialized identity.
func (v *slowValidator) whois(serialized []byte) (msp, unit string) {
	if cert, msp := v.certificate(serialized); cert != nil && len(cert.Subject.OrganizationalUnit) == 1 {
		return msp, cert.Subject.OrganizationalUnit[0]
	}
	return "", ""
}

func (v *slowValidator) certificate(serialized []byte) (*x509.Certificate, string) {
	var id msppb.SerializedIdentity
	if proto.Unmarshal(serialized, &id) != nil {
		return nil, ""
	}
	block, _ := pem.Decode(id.IdBytes)
	if block == nil {
		return nil, ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, ""
	}
	return cert, id.Mspid
}

// signed reports whether a member of the channel, whose certificate was valid then, has signed the message, with the lower
// of the two values that S may have.
func (v *slowValidator) signed(serialized, message, signature []byte, when time.Time) bool {
	cert, msp := v.certificate(serialized)
	authority := v.world.CAs[msp]
	if cert == nil || authority == nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.CertPEM())
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: when, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return false
	}
	var parts struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(signature, &parts); err != nil || len(rest) > 0 {
		return false
	}
	half := new(big.Int).Rsh(elliptic.P256().Params().N, 1)
	hash := sha256.Sum256(message)
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	return ok && parts.S.Cmp(half) <= 0 && ecdsa.VerifyASN1(key, hash[:], signature)
}

// conflicts reads everything again that the transaction has read.
func (v *slowValidator) conflicts(tx *slowTx) Code {
	for i := range tx.sets {
		ns, kv := tx.sets[i].namespace, &tx.sets[i].kv
		for _, r := range kv.Reads {
			now, exists := v.keys[ns+"/"+r.Key]
			if exists != (r.Version != nil) || (exists && now.at != readVersion(r.Version)) {
				return peerpb.TxValidationCode_MVCC_READ_CONFLICT
			}
		}
		for _, q := range kv.RangeQueriesInfo {
			var now, then []string
			for key, e := range v.keys {
				k, ok := strings.CutPrefix(key, ns+"/")
				if ok && k >= q.StartKey && (q.EndKey == "" || k < q.EndKey || (!q.ItrExhausted && k == q.EndKey)) {
					now = append(now, fmt.Sprint(k, e.at))
				}
			}
			for _, r := range q.GetRawReads().GetKvReads() {
				then = append(then, fmt.Sprint(r.Key, readVersion(r.Version)))
			}
			sort.Strings(now)
			sort.Strings(then)
			if !slices.Equal(now, then) {
				return peerpb.TxValidationCode_PHANTOM_READ_CONFLICT
			}
		}
	}
	return valid
}

// state is every key with its value and version, in order.
func (v *slowValidator) state() []string {
	out := make([]string, 0, len(v.keys))
	for key, e := range v.keys {
		out = append(out, fmt.Sprintf("%s=%x @%d.%d %x", key, e.value, e.at.at.Block, e.at.at.Tx, e.at.hash))
	}
	sort.Strings(out)
	return out
}

// stateOf is the same of the fast path.
func stateOf(s *statedb.Snapshot) []string {
	out := []string{}
	for _, namespace := range s.Namespaces() {
		s.Each(namespace, func(e statedb.Entry) bool {
			out = append(out, fmt.Sprintf("%s/%s=%x @%d.%d %x", namespace, e.Key, e.Value, e.Version.Block, e.Version.Tx, e.Version.Hash))
			return true
		})
	}
	sort.Strings(out)
	return out
}
