package replica

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
)

// heard keeps whom a replica has sent messages.
type heard struct {
	consensus.Host
	to []uint64
}

func (h *heard) Knows(uint64) bool { return true }

func (h *heard) Send(to uint64, _ consensus.Message) { h.to = append(h.to, to) }

// slowDisk syncs once it is let, from the moment on when it is slow.
type slowDisk struct {
	votelog.File
	slow    bool
	syncing chan struct{}
	ends    chan error
}

func (d *slowDisk) Sync() error {
	if !d.slow {
		return d.File.Sync()
	}
	d.syncing <- struct{}{}
	return <-d.ends
}

// writing is a replica that has one vote to record, and then to send.
func writing(t *testing.T, dir string, host consensus.Host, opts votelog.Options) *Node {
	votes, _, err := votelog.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = votes.Close() })
	n := &Node{
		settings: consensus.Settings{ID: 4}, host: host, outbox: newOutbox(host), log: votes, disk: newQueue[bft.Effects](), work: newQueue[work](),
		protocol: Protocol{Encode: pbft.Encode, EncodeRecord: pbft.EncodeRecord},
	}
	cp := bft.Checkpoint{Seq: 1, Next: bft.Group{Epoch: 1, Members: []bft.ID{1, 2, 3}}}
	n.disk.put(bft.Effects{
		Persist: []bft.Record{&pbft.VoteRecord{Checkpoint: cp}},
		Send: []bft.Outgoing{
			{To: 1, Message: &pbft.CheckpointVote{Checkpoint: cp}}, {To: 2, Message: &pbft.CheckpointVote{Checkpoint: cp}},
		},
		Apply: []bft.Ordered{{Seq: 1}},
	})
	return n
}

// TestVotesAreDurableBeforeTheyLeave: nothing is sent or applied while the disk is at it, or once it has failed.
func TestVotesAreDurableBeforeTheyLeave(t *testing.T) {
	for name, end := range map[string]error{"synced": nil, "failed": errors.New("input/output error")} {
		t.Run(name, func(t *testing.T) {
			disk := &slowDisk{syncing: make(chan struct{}), ends: make(chan error)}
			host := &heard{}
			n := writing(t, t.TempDir(), host, votelog.Options{Wrap: func(f votelog.File) votelog.File {
				disk.File = f
				return disk
			}})
			disk.slow = true
			wrote := make(chan error, 1)
			go func() { wrote <- n.write(context.Background()) }()
			<-disk.syncing
			n.disk.close()
			assert.Empty(t, host.to)
			n.work.close()
			assert.Empty(t, n.work.take(), "nothing is applied either")
			disk.ends <- end
			require.ErrorIs(t, <-wrote, end)
			if end == nil {
				assert.Equal(t, []uint64{1, 2}, host.to)
				assert.Len(t, n.work.take(), 1)
			} else {
				assert.Empty(t, host.to)
				assert.Empty(t, n.work.take())
			}
		})
	}
}

// fullDisk takes half of a write.
type fullDisk struct {
	votelog.File
	full bool
}

func (d *fullDisk) WriteAt(p []byte, off int64) (int, error) {
	if !d.full {
		return d.File.WriteAt(p, off)
	}
	n, err := d.File.WriteAt(p[:len(p)/2], off)
	return n, errors.Join(err, syscall.ENOSPC)
}

// TestNothingLeavesOnceAWriteHasFailed: not the vote that is not on the disk, and nothing that was to follow it. What was
// there before is there when the replica is started again.
func TestNothingLeavesOnceAWriteHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(t *testing.T, dir string, disk *fullDisk)
		anew  bool
		is    error
	}{
		"half a record is written": {func(_ *testing.T, _ string, disk *fullDisk) { disk.full = true }, false, syscall.ENOSPC},
		"a new file is not made": {func(t *testing.T, dir string, _ *fullDisk) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, durable.Making), 0o755))
		}, true, syscall.EISDIR},
		"a new file does not get its name": {func(t *testing.T, dir string, _ *fullDisk) {
			votes := filepath.Join(dir, "votes")
			require.NoError(t, os.Rename(votes, votes+".before"))
			require.NoError(t, os.Mkdir(votes, 0o755))
		}, true, syscall.EEXIST},
	} {
		t.Run(name, func(t *testing.T) {
			host, dir, disk := &heard{}, t.TempDir(), &fullDisk{}
			n := writing(t, dir, host, votelog.Options{Wrap: func(f votelog.File) votelog.File {
				disk.File = f
				return disk
			}})
			require.NoError(t, n.log.Append([][]byte{[]byte("before")}))
			c.fails(t, dir, disk)
			if c.anew {
				first := n.disk.take()
				first[0].Persist = append([]bft.Record{replace{}}, first[0].Persist...)
				n.disk.put(first[0])
			}
			n.disk.put(bft.Effects{Send: []bft.Outgoing{{To: 3, Message: &pbft.CheckpointVote{}}}, Apply: []bft.Ordered{{Seq: 2}}})
			n.disk.close()
			require.ErrorIs(t, n.write(context.Background()), c.is)
			assert.Empty(t, host.to)
			n.work.close()
			assert.Empty(t, n.work.take())

			require.NoError(t, n.log.Close())
			if before := filepath.Join(dir, "votes.before"); c.is == syscall.EEXIST {
				require.NoError(t, os.Remove(filepath.Join(dir, "votes")))
				require.NoError(t, os.Rename(before, filepath.Join(dir, "votes")))
			}
			votes, records, err := votelog.Open(dir, votelog.Options{})
			require.NoError(t, err)
			assert.Equal(t, [][]byte{[]byte("before")}, records)
			require.NoError(t, votes.Close())
		})
	}
}

// TestLastVotesLeave of a replica that ends, as one does whose last vote has removed it: the others may lack that vote.
func TestLastVotesLeave(t *testing.T) {
	dir := t.TempDir()
	host := &heard{}
	n := writing(t, dir, host, votelog.Options{})
	n.disk.close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, n.write(ctx), context.Canceled)
	assert.Equal(t, []uint64{1, 2}, host.to)
	require.NoError(t, n.log.Close())
	votes, records, err := votelog.Open(dir, votelog.Options{})
	require.NoError(t, err)
	assert.Len(t, records, 1)
	require.NoError(t, votes.Close())
}

// TestNothingFollowsAFault: a replica that finds itself among more liars than it can bear, or damaged, says nothing more.
func TestNothingFollowsAFault(t *testing.T) {
	host, fault := &heard{}, errors.New("another state")
	n := writing(t, t.TempDir(), host, votelog.Options{})
	n.disk.put(bft.Effects{
		Fault: fault, Send: []bft.Outgoing{{To: 3, Message: &pbft.CheckpointVote{}}}, Apply: []bft.Ordered{{Seq: 2}},
	})
	n.disk.close()
	require.ErrorIs(t, n.write(context.Background()), fault)
	assert.Equal(t, []uint64{1, 2}, host.to, "what came before it leaves")
	n.work.close()
	assert.Len(t, n.work.take(), 1)
}

// TestTheLogOfVotesKeepsUpWithAFetch is what the core is told when its votes are durable, before the fetch has ended: it goes on
// voting meanwhile.
func TestTheLogOfVotesKeepsUpWithAFetch(t *testing.T) {
	disk := &slowDisk{syncing: make(chan struct{}), ends: make(chan error)}
	n := writing(t, t.TempDir(), &heard{}, votelog.Options{Wrap: func(f votelog.File) votelog.File {
		disk.File = f
		return disk
	}})
	disk.slow = true
	n.inputs = make(chan news, 1)
	n.disk.put(bft.Effects{Fetch: &bft.Fetch{Certificate: bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 7}}}})
	wrote := make(chan error, 1)
	go func() { wrote <- n.write(context.Background()) }()
	<-disk.syncing
	n.disk.close()
	assert.Empty(t, n.inputs)
	disk.ends <- nil
	require.NoError(t, <-wrote)
	assert.Equal(t, bft.Logged{Seq: 7}, (<-n.inputs).in)
	assert.Len(t, n.work.take(), 2, "of which one is the fetch")
}
