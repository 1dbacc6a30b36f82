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
	keys     atomic.Pointer[keyring]
	epoch    atomic.Uint64 // that the core is in
	learning sync.Mutex
	sequence uint64 // of the configuration that keys were learned from last, plus one

	verdicts verdicts
	known    *ordered
}

// keyring are consenters' keys, by id.
type keyring struct {
	keys     map[uint64]*identity.Identity
	replaced map[uint64]*identity.Identity // that the configuration in force has replaced
	until    uint64                        // the epoch that this configuration begins: in those before, replaced keys hold too
}

type verdict struct {
	sequence   uint64 // of the configuration that it was reached under
	config, ok bool
}

func newOracle(s consensus.Settings, host consensus.Host) *oracle {
	o := &oracle{settings: s, host: host, verdicts: verdicts{now: map[bft.Digest]verdict{}}, known: newOrdered()}
	o.keys.Store(&keyring{})
	return o
}

// learn takes over the consenters' keys of the configuration in force, if it is another one than before, and reports that.
// Epoch is the one that it begins. Keys of members that have left stay: certificates of their time may still come. A key
// that was replaced holds until that epoch has begun here, for its owner votes with it on where the one before ends.
func (o *oracle) learn(epoch uint64) (learned bool) {
	o.learning.Lock()
	defer o.learning.Unlock()
	bundle := o.settings.Bundle()
	if o.sequence == bundle.Sequence+1 {
		return false
	}
	o.sequence = bundle.Sequence + 1
	before := o.keys.Load()
	now := &keyring{keys: map[uint64]*identity.Identity{}, replaced: map[uint64]*identity.Identity{}, until: epoch}
	maps.Copy(now.keys, before.keys)
	for id, key := range keysOf(bundle, o.host.Members()) {
		if old := before.keys[id]; old != nil && !old.Same(key) {
			now.replaced[id] = old
		}
		now.keys[id] = key
	}
	o.keys.Store(now)
	return true
}

// recall takes over, before all else, the keys of who ordered under the configuration before: an orderer that was killed as
// that one ended may be told only now that it did, by a certificate which some of them have signed. It gives the epoch that
// the configuration in force begins.
func (o *oracle) recall() (epoch uint64, err error) {
	keys, epoch, err := former(o.host)
	if err == nil {
		o.keys.Store(&keyring{keys: keys})
	}
	return epoch, err
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
	ring := o.keys.Load()
	if key := ring.keys[by]; key != nil && key.Verify(data, signature) == nil {
		return true
	}
	old := ring.replaced[by]
	return old != nil && o.epoch.Load() < ring.until && old.Verify(data, signature) == nil
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
	_, has := o.known.has[tx]
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
			o.known.put(id)
		}
	}
}

func (o *oracle) remember(txs []bft.Digest) {
	for _, id := range txs {
		o.known.put(id)
	}
}

// verdicts are at least the last kept ones, and at most twice as many.
type verdicts struct{ now, before map[bft.Digest]verdict }

func (v *verdicts) get(d bft.Digest) (verdict, bool) {
	found, has := v.now[d]
	if !has {
		found, has = v.before[d]
	}
	return found, has
}

func (v *verdicts) put(d bft.Digest, reached verdict) {
	if len(v.now) >= kept {
		v.before, v.now = v.now, make(map[bft.Digest]verdict, kept)
	}
	v.now[d] = reached
}
