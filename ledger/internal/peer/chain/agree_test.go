package chain

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
)

// history makes random transactions over few keys, simulated on states that are
// more or less old by the time they commit.
func history(w *peertest.World, r *rand.Rand, snapshot func() *statedb.Snapshot) func() []byte {
	var snapshots []*statedb.Snapshot
	var made [][]byte
	peers := []*identity.SigningIdentity{w.Signer("Org1MSP", "peer"), w.Signer("Org2MSP", "peer")}
	return func() []byte {
		if len(made) > 0 && r.Intn(20) == 0 {
			return made[r.Intn(len(made))]
		}
		snapshots = append(snapshots, snapshot())
		snap := snapshots[len(snapshots)-1-r.Intn(min(len(snapshots), 4))]
		tx := peertest.Tx{Chaincode: []string{"kv", "kv", "both"}[r.Intn(3)], Endorsers: peers[:1+r.Intn(2)]}
		tx.Results = w.Simulate(snap, func(s *rwset.Simulator) { randomCalls(r, s, tx.Chaincode) })
		if r.Intn(5) == 0 {
			tx.Results = unmarked(tx.Results)
		}
		switch r.Intn(25) {
		case 0:
			tx.Change = func(p *peertest.Parts) { p.Envelope = func(e *commonpb.Envelope) { e.Signature[8]++ } }
		case 1:
			tx.Change = func(p *peertest.Parts) { p.Channel.TxId = protoutil.TxID([]byte("nonce"), []byte("somebody")) }
		}
		raw, _ := w.Make(tx)
		made = append(made, raw)
		return raw
	}
}

// unmarked leaves out the mark of what is deleted, as other endorsers may: a write of nothing is a delete all the same.
func unmarked(results []byte) []byte {
	var all rwsetpb.TxReadWriteSet
	if err := proto.Unmarshal(results, &all); err != nil {
		panic(err)
	}
	for _, ns := range all.NsRwset {
		var kv kvrwsetpb.KVRWSet
		if err := proto.Unmarshal(ns.Rwset, &kv); err != nil {
			panic(err)
		}
		for _, w := range kv.Writes {
			w.IsDelete = false
		}
		var err error
		if ns.Rwset, err = proto.Marshal(&kv); err != nil {
			panic(err)
		}
	}
	out, err := proto.Marshal(&all)
	if err != nil {
		panic(err)
	}
	return out
}

func randomCalls(r *rand.Rand, s *rwset.Simulator, ns string) {
	key := func() string { return fmt.Sprintf("k%02d", r.Intn(30)) }
	for range r.Intn(3) {
		_, _ = s.Get(ns, key())
	}
	if r.Intn(3) == 0 {
		from := key()
		end := []string{"", from + "~", "k99"}[r.Intn(3)]
		_, _, _ = s.Range(ns, from, end).Next(1 + r.Intn(4))
	}
	for range r.Intn(3) {
		if r.Intn(4) == 0 {
			_ = s.Delete(ns, key())
		} else {
			_ = s.Put(ns, key(), []byte(key()))
		}
	}
}

// TestFastAndSlowAgree runs random histories through two pipelines of different width, one
// with restarts, and through the slow validator: same verdicts, same state, same hashes.
func TestFastAndSlowAgree(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := streamWorld(t)
			if seed >= 4 {
				w = liarsWorld(t)
			}
			r := rand.New(rand.NewSource(seed))
			slow := newSlowValidator(w)
			one := startRig(t, w, t.TempDir(), Options{Workers: 1, Files: smallSegments})
			dir := t.TempDir()
			two := startRig(t, w, dir, Options{Workers: 4, Files: smallSegments})
			next := history(w, r, func() *statedb.Snapshot { return one.Snapshot() })
			seen := map[Code]int{}
			var verdicts []byte
			for range 300 {
				raw := next()
				at := one.Position()
				one.add(raw)
				two.add(raw)
				code := slow.verdict(raw, at)
				seen[code]++
				verdicts = append(verdicts, byte(code))
				if len(one.open) == 100 || r.Intn(8) == 0 {
					one.seal()
					two.seal()
					slow.sealed(one.orders.Previous)
				}
				if r.Intn(10) == 0 {
					one.settle()
				}
				if r.Intn(100) == 0 {
					two.settle()
					orders, open := two.orders, two.open
					require.NoError(t, two.stop())
					two = startRig(t, w, dir, Options{Workers: 3, Files: smallSegments})
					two.orders, two.open = orders, open
				}
			}
			one.seal()
			two.seal()
			one.settle()
			two.settle()
			require.Equal(t, one.fingerprint(), two.fingerprint())
			var fast []byte
			for n := uint64(1); n < one.Height(); n++ {
				b, err := one.Block(n)
				require.NoError(t, err)
				fast = append(fast, Flags(b)...)
			}
			require.Equal(t, verdicts, fast)
			require.Equal(t, slow.state(), stateOf(one.Snapshot()))
			require.Equal(t, slow.state(), stateOf(two.Snapshot()))
			for _, code := range []Code{
				valid, peerpb.TxValidationCode_MVCC_READ_CONFLICT, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT, peerpb.TxValidationCode_DUPLICATE_TXID,
				peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE, peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE,
				peerpb.TxValidationCode_BAD_PROPOSAL_TXID,
			} {
				require.Positive(t, seen[code], "the history must show %s to mean anything", code)
			}
		})
	}
}
