package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
)

// refusing is a core that refuses the same transactions in every step.
type refusing struct {
	bft.Core
	refused []bft.Refusal
}

func (c refusing) Step(bft.Time, bft.Input) bft.Effects { return bft.Effects{Refused: c.refused} }

// refusals keeps which transactions' clients a replica has answered.
type refusals struct {
	consensus.Host
	txs [][32]byte
}

func (r *refusals) Refuse(tx [32]byte, _ error) { r.txs = append(r.txs, tx) }

func (refusing) View() bft.View { return bft.View{} }

// TestARefusalAnswersItsOwnClients: a step also refuses what waits from before and no longer holds.
func TestARefusalAnswersItsOwnClients(t *testing.T) {
	tx, other := []byte("tx"), bft.TxDigest([]byte("other"))
	for name, of := range map[string]struct {
		refused bft.Refusal
		settled []error
		told    [][32]byte
	}{
		"its own":   {bft.Refusal{Tx: bft.TxDigest(tx), Reason: bft.ErrOverload}, []error{consensus.ErrOverload}, nil},
		"another's": {bft.Refusal{Tx: other, Reason: bft.ErrOutdated}, nil, [][32]byte{other}},
	} {
		t.Run(name, func(t *testing.T) {
			host := &refusals{}
			n := &Node{
				host: host, core: refusing{refused: []bft.Refusal{of.refused}},
				intake: consensus.NewIntake(), oracle: newOracle(consensus.Settings{}, host), disk: newQueue[bft.Effects](),
			}
			var settled []error
			p := consensus.Proposal{Tx: tx, Settle: func(err error) { settled = append(settled, err) }}
			assert.NoError(t, n.Submit(p))
			n.submit(<-n.intake.C())
			assert.Equal(t, of.settled, settled)
			assert.Equal(t, of.told, host.txs)
		})
	}
}

// TestWhatIsKnownIsSettledOnceVotesAreDurable: a client that asks again is told no sooner than one that has waited.
func TestWhatIsKnownIsSettledOnceVotesAreDurable(t *testing.T) {
	disk := &slowDisk{syncing: make(chan struct{}), ends: make(chan error)}
	n := writing(t, t.TempDir(), &heard{}, votelog.Options{Wrap: func(f votelog.File) votelog.File {
		disk.File = f
		return disk
	}})
	disk.slow = true
	n.intake, n.oracle = consensus.NewIntake(), newOracle(n.settings, n.host)
	tx := []byte("tx")
	n.oracle.applied(&bft.Entry{Txs: [][]byte{tx}})
	var settled []error
	require.NoError(t, n.Submit(consensus.Proposal{Tx: tx, Settle: func(err error) { settled = append(settled, err) }}))
	n.submit(<-n.intake.C())
	assert.Empty(t, settled)

	wrote := make(chan error, 1)
	go func() { wrote <- n.write(context.Background()) }()
	<-disk.syncing
	n.disk.close()
	disk.ends <- nil
	require.NoError(t, <-wrote)
	assert.Equal(t, []error{nil}, settled)
	n.work.close()
	assert.Len(t, n.work.take(), 1, "what was to be applied before: nobody waits for it")
}

// TestWhatWaitsToBeSettledIsBounded: a client can send a large transaction again and again while the disk is slow.
func TestWhatWaitsToBeSettledIsBounded(t *testing.T) {
	n := writing(t, t.TempDir(), &heard{}, votelog.Options{})
	n.intake, n.oracle = consensus.NewIntake(), newOracle(n.settings, n.host)
	large, small := make([]byte, 20<<20), []byte("tx")
	n.oracle.applied(&bft.Entry{Txs: [][]byte{large, small}})
	var settled []error
	again := func(tx []byte) {
		require.NoError(t, n.Submit(consensus.Proposal{Tx: tx, Settle: func(err error) { settled = append(settled, err) }}))
		n.submit(<-n.intake.C())
	}
	for range 4 {
		again(large)
	}
	assert.Equal(t, []error{consensus.ErrOverload}, settled, "three of them wait")
	again(small)
	assert.Len(t, settled, 1, "it has room")
	n.disk.close()
	require.NoError(t, n.write(context.Background()))
	assert.Equal(t, []error{consensus.ErrOverload, nil, nil, nil, nil}, settled)
	assert.Zero(t, n.settling.Load())
	for settled = nil; settled == nil; {
		again(small)
	}
	waiting := len(n.disk.take())
	assert.LessOrEqual(t, waiting, mostSettling/settlingBytes, "small ones are bounded as well")
}
