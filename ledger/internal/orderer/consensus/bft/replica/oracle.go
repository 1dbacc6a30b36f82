package replica

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// oracle answers the core about signatures and transactions. The core asks from one goroutine.
type oracle struct {
	settings consensus.Settings
	host     consensus.Host
	keys     atomic.Pointer[map[uint64]*identity.Identity]
	learning sync.Mutex
	sequence uint64 // of the configuration that keys were learned from last, plus one

	verdicts recent[verdict]
	known    recent[struct{}]
}

type verdict struct {
	sequence   uint64 // of the configuration that it was reached under
	config, ok bool
}

func newOracle(s consensus.Settings, host consensus.Host) *oracle {
	o := &oracle{settings: s, host: host, verdicts: newRecent[verdict](), known: newRecent[struct{}]()}
	o.keys.Store(&map[uint64]*identity.Identity{})
	return o
}

// learn takes over the consenters' keys of a configuration that has come into force. Applying. Those of members that have left
// stay: certificates of their time may still come.
func (o *oracle) learn() {
	o.learning.Lock()
	defer o.learning.Unlock()
	bundle := o.settings.Bundle()
	if o.sequence == bundle.Sequence+1 {
		return
	}
	o.sequence = bundle.Sequence + 1
	keys := maps.Clone(*o.keys.Load())
	maps.Copy(keys, keysOf(bundle, o.host.Members()))
	o.keys.Store(&keys)
}

// recall takes over, before all else, the keys of who ordered under the configuration before: an orderer that was killed as
// that one ended may be told only now that it did, by a certificate which some of them have signed.
func (o *oracle) recall() error {
	keys, err := former(o.host)
	if err == nil && keys != nil {
		o.keys.Store(&keys)
	}
	return err
}

// Sign implements bft.Oracle.
func (o *oracle) Sign(data []byte) []byte {
	signature, err := o.settings.Signer.Sign(data)
	if err != nil {
		log.Errorf("[channel: %s] signing: %s", o.settings.Channel, err)
	}
	return signature
}

// Verify implements bft.Oracle.
func (o *oracle) Verify(by bft.ID, data, signature []byte) bool {
	key := (*o.keys.Load())[by]
	return key != nil && key.Verify(data, signature) == nil
}

// Check implements bft.Oracle. The verdict holds for the configuration in force: a proposal that is refused under an
// older one is sent again.
func (o *oracle) Check(tx []byte) (config, ok bool) {
	if _, is := cutIn(tx); is {
		return false, true
	}
	digest := bft.TxDigest(tx)
	bundle := o.settings.Bundle()
	if v, has := o.verdicts.get(digest); has && v.sequence == bundle.Sequence {
		return v.config, v.ok
	}
	v := verdict{sequence: bundle.Sequence, config: isConfig(tx)}
	if v.config {
		v.ok = follows(bundle, tx)
	} else {
		v.ok = o.host.Check(tx) == nil
	}
	o.verdicts.put(digest, v)
	return v.config, v.ok
}

// checked notes what the orderer has checked before it submits it.
func (o *oracle) checked(digest bft.Digest, p consensus.Proposal) {
	o.verdicts.put(digest, verdict{sequence: p.Sequence, config: p.Config, ok: true})
}

func isConfig(tx []byte) bool { return protoutil.HeaderType(tx) == int32(commonpb.HeaderType_CONFIG) }

// follows reports whether a configuration is one that may come into force after the present one.
func follows(bundle *channelconfig.Bundle, tx []byte) bool {
	msg, err := protoutil.ParseEnvelope(tx)
	if err != nil {
		return false
	}
	_, err = bundle.Next(msg)
	return err == nil
}

// Mark implements bft.Oracle: an entry of the log has room for one cut.
func (o *oracle) Mark(tx []byte) bool {
	_, is := cutIn(tx)
	return is
}

// Known implements bft.Oracle.
func (o *oracle) Known(tx bft.Digest) bool {
	_, has := o.known.get(tx)
	return has
}

// applied notes what is ordered. A cut is not: a liar may have had it ordered before its block was open, and then it has to
// be ordered again.
func (o *oracle) applied(e *bft.Entry) {
	if e == nil {
		return
	}
	for i, id := range e.IDs() {
		if !o.Mark(e.Txs[i]) {
			o.known.put(id, struct{}{})
		}
	}
}

func (o *oracle) remember(txs []bft.Digest) {
	for _, id := range txs {
		o.known.put(id, struct{}{})
	}
}

// recent remembers at least the last kept things, and at most twice as many.
type recent[V any] struct{ now, before map[bft.Digest]V }

const kept = 1 << 16

func newRecent[V any]() recent[V] { return recent[V]{now: map[bft.Digest]V{}} }

func (r *recent[V]) get(d bft.Digest) (V, bool) {
	v, has := r.now[d]
	if !has {
		v, has = r.before[d]
	}
	return v, has
}

func (r *recent[V]) put(d bft.Digest, v V) {
	if len(r.now) >= kept {
		r.before, r.now = r.now, make(map[bft.Digest]V, kept)
	}
	r.now[d] = v
}
