// Package consensus is the seam between a channel and the ways to agree on its order.
//
// A Kind is one way: etcdraft.Raft, etcdraft.Solo, kafka.Kind, sequencer.Kind, replica.PBFT, replica.Zyzzyva. The orderer
// (package orderer) knows a channel's Consenter and Kind by this package alone. A new way is a package with a Kind, one line
// in orderer/kinds.go, one in setup/options.go for those who begin a network, and, where it has settings in the channel's
// configuration, one in channelconfig/kinds.go.
//
// # The way of a transaction
//
//	client ─▶ Submit ─▶ (agreement) ─▶ Host.Apply ─▶ cutter, blocks, followers, and the client's answer
//
// The orderer has checked form, size and signature before Submit, at this orderer or at the member that hands the
// transaction over. A protocol that tolerates liars does not believe that member: Host.Check does it again, for what a
// proposal of another one brings. A transaction that waits while a configuration comes into force may be valid no longer
// (Proposal.Sequence): who proposes checks it again then, and has its clients told (Host.Refuse, or Settle). An external
// log has it already: it names the configuration, and all orderers leave out alike what the one in force there does not
// allow (streampb.LogEntry.Checked). What is agreed on is a log of entries (streampb.LogEntry): transactions, and cuts that end the open
// block. Everything after the log is a deterministic function of it: the same entries give the same blocks on every orderer,
// but for signatures. So nothing that differs between two orderers (a clock, a configuration that is not applied yet, an
// order of arrival) may reach an entry except through agreement.
//
// # Which goroutine calls what
//
// Run is one goroutine of the channel's, and the only one that calls the Host methods marked "applying". It may hand these
// calls to another goroutine of its own, as long as they are never concurrent and Run returns after the last of them.
// Submit, Step, Unreachable, Leader, Queued and Busy are called from any goroutine, before, during and after Run: they
// queue (Intake, a bounded channel) or read an atomic, and never wait. What does not fit is refused (Submit: ErrOverload)
// or lost (Step): a protocol has to bear lost, late, repeated and reordered messages anyway.
//
// A core that is a pure Step(now, input) -> effects fits in as a node of four parts: Run's loop selects on ticks, Intake,
// messages and BlockTimer, gives each to the core, makes durable what the effects say, then sends, then applies. etcdraft
// is the pattern to follow; Saturation, BlockTimer, Syncer and Intake are here for it.
//
// # What is durable when
//
//   - Before a message leaves that promises something (a vote, an acknowledgement, a prepare), the promise is on disk, in
//     files of the consenter's own below Settings.Dir. One write and fsync may cover many promises.
//   - Before Apply of an entry, enough orderers have it on disk that no later leader can order something else there.
//     Apply itself writes without an fsync: after a crash the log brings again what the ledger has lost.
//   - Host.Sync makes durable all that was applied. Only then may the log forget entries, and only those before
//     Applied().Index, which are in sealed blocks as a whole. Syncer runs it beside Run.
//   - After a start, Run applies from an entry that is not after Applied().Index on. The ledger skips what its sealed blocks
//     hold. A part of the open block that it still has must be what the log brings again: else Apply errs
//     (chain.ErrOtherLog), and the node stops. So an entry that was applied once is final, whatever a later view says.
//   - An orderer that was away for longer than the log reaches back fetches sealed blocks: Host.CatchUp. It checks their
//     hashes and their signatures against the policy BlockValidation, nothing else. The hash of a sealed block's header
//     (Host.Block) stands for all before it, so it is what members can agree on as a checkpoint; the block's metadata
//     has its place in the log.
//
// # When a client is answered
//
// A consenter calls Proposal.Settle with an error when a transaction did not get into the log, or may not have. That it did
// is seen in Apply: "applied here" answers the client, whichever member leads. An external consenter (Kind.Log.External)
// answers itself, by Settle(nil), as its log acknowledges. LeaderChanged with a leader before has all who wait told that
// they may have to send again; a protocol whose members keep what waits across a change of view passes 0 for before. Each
// answer is one orderer's: where orderers may lie, a client, or the gateway for it, needs it of f+1.
// A consenter whose clients find out earlier by themselves, from what each member tells them, is Attended as well.
//
// # How blocks get signatures
//
// The ledger closes a block inside Apply, at a place of the log that the cutter derives from the entries alone. Header and
// consenter's metadata (Kind.Log.Marshal) are then known, and alike on all orderers; the next block needs the header's hash
// and not the signatures. By default the orderer's own signature is the only one. A consenter whose blocks carry more
// calls Host.SealBy once, in Open, and is asked for the signatures of each block from inside Apply. To gather a quorum it
// signs, sends its signature by Host.Send, and waits for others' that Step takes: such a consenter applies in a goroutine
// beside the one that steps its core, or it would wait for itself. Transactions are shown to followers before the wait
// begins, so a stream goes on up to the seal; entries after it wait one exchange of signatures. A metadata value that
// differs between orderers (an own index, a time) would leave each signature alone: Marshal may depend on the place and the
// members only.
//
// Where orderers may lie (channelconfig.Trust), the ledger keeps a running hash of what was applied, and followers are sent it
// with the transactions (streampb.Word): they believe ahead of a seal what f+1 orderers say alike. So what is applied must be
// final, as it is above: an orderer that had to take it back would be one of the liars.
//
// # How a change of the members is told
//
// A configuration transaction comes by Submit with Proposal.Config set, and stands alone in its entry. Host.Change says
// which member it adds, removes or rotates, or that it cannot come into force. The answer holds where all entries before it
// are applied, so the transaction is proposed, and a proposal of it judged, only then. Apply puts it into force: afterwards
// Members has the new ids, Knows and Send know the new members, and Settings.Bundle gives the new configuration. An id is
// never used twice; Members()[i] is the id of Bundle().Orderer.Consenters[i], and stands in the metadata of each block.
//
// A consenter that finds itself removed returns ErrRemoved from Run: the orderer then follows the others' blocks, and opens
// a new consenter when it is a member again. Where it cannot know, because the others no longer talk to it, Kind.Patience
// has the orderer ask for their newest blocks.
package consensus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var (
	// ErrNotLeader is told by a consenter that takes transactions only while it leads. The orderer then hands the
	// transaction to Leader.
	ErrNotLeader = errors.New("this orderer is not the leader")
	// ErrOverload is told when too much waits to be ordered.
	ErrOverload = fmt.Errorf("%w: too many transactions wait to be ordered", protoutil.ErrExhausted)
	// ErrTooLarge is told of a transaction that the log does not take, now or later.
	ErrTooLarge = errors.New("the transaction is larger than the log takes")
	// ErrRemoved is what Run ends with when the others have removed this orderer from among them.
	ErrRemoved = errors.New("this orderer is no longer a consenter")
)

// Kind is one way to agree.
type Kind struct {
	// Log is how blocks name their place in the log. An external log has no members: every orderer takes part, and
	// they do not talk to each other.
	Log chain.Log
	// Folder is the folder of a consenter's own files in a channel's; empty: it has none.
	Folder string
	// Kept is the number of the first block that the log in such a folder brings again whole, with all after it up to the
	// log's last index. It errs where that is not certain. nil: it is of no log.
	Kept func(dir string) (block, last uint64, err error)
	// Votes reports whether such a folder holds votes, of a kind whose blocks a quorum signs: the other members have what this
	// one's blocks have lost. nil: it is of no such kind.
	Votes func(dir string) (bool, error)
	// Patience is how long a consenter may hear of no leader before the others are asked whether it has been removed;
	// nil: it is never removed without hearing of it.
	Patience func(*channelconfig.Orderer) time.Duration
	// Lingers has the members that a configuration removes heard until the next configuration.
	Lingers bool
	// Keeps has each member keep what its clients wait for when it loses the leader, until another one orders it. Of
	// copies that wait it keeps one, which is ordered for all.
	Keeps bool
	// Open recovers a consenter; it neither waits nor talks to anybody before Run.
	Open func(Settings, Host) (Consenter, error)
}

// Settings are what a consenter is opened with.
type Settings struct {
	// Channel is the channel's name.
	Channel string
	// ID is this orderer's among the members, from 1 on; 0 where the log is external. A single orderer is 1.
	ID uint64
	// Founders is how many members the channel began with, whose ids are 1 to Founders; an orderer of a later id joins
	// a group that has a history, and is never one of those who begin it.
	Founders uint64
	// Dir is the folder of the consenter's files, of this channel and ID alone.
	Dir string
	// Bundle is the configuration in force: how the channel is ordered, who the members are, and whom to believe a
	// signature. Any goroutine may ask.
	Bundle func() *channelconfig.Bundle
	// Signer is this orderer's identity.
	Signer protoutil.Signer
	// VolatileVotes has votes leave before they are on disk, for measurements only.
	VolatileVotes bool
	// Certificate is this orderer's in TLS, for who is not a member; nil: TLS is off.
	Certificate *tls.Certificate
	// Unpaced has nothing wait to gather others (nodeconfig.Config.LikeFabric).
	Unpaced bool
}

// CutInterval is how long a block may stay open by the configuration in force.
func (s Settings) CutInterval() time.Duration { return s.Bundle().Orderer.CutInterval() }

// Consenter is one orderer's part in agreeing on the order of one channel.
type Consenter interface {
	// Run takes part until ctx ends, and then returns nil. ErrRemoved lets the orderer follow; any other error ends the
	// node, which may not promise what it cannot keep. It is called once, and releases what Open has taken.
	Run(ctx context.Context) error
	// Submit takes a transaction. An error says at once why not; Settle is not called then.
	Submit(Proposal) error
	// Step takes a message that another member has sent. From is the member whose TLS certificate it came under, or 0
	// where TLS is off: then the message may say itself whom it is from, and anybody may have sent it. An error is a
	// gRPC status, and ends the other's stream.
	Step(from uint64, payload []byte) error
	// Unreachable says that messages to another member are being lost.
	Unreachable(id uint64)
	// Leader is the member that orders, as far as this one knows; 0: none does, or all do.
	Leader() uint64
	// Queued is how many proposals and messages wait. Busy is for how many seconds the consenter has worked.
	Queued() (proposals, messages int)
	Busy() float64
}

// Host is what a consenter is given: the channel's ledger, and the way to the other members.
type Host interface {
	// Apply puts entries into the ledger, which follow each other from index first on. Applying.
	Apply(first uint64, entries ...*streampb.LogEntry) error
	// Applied is how far the log is in sealed blocks, and Height their number, the genesis block included. Applying.
	Applied() chain.Applied
	Height() uint64
	// Block reads a sealed block. Any goroutine may ask.
	Block(number uint64) (*commonpb.Block, error)
	// From is where an external log is to be read from, to compare the last block with it. Applying.
	From() chain.Applied
	// Reached is where an external log has been in sealed blocks: after Applied where damaged ones are to be made again.
	// Applying.
	Reached() chain.Applied
	// Missing is how many transactions this orderer had behind sealed blocks that have not come again since its start. An
	// external log has them before its end. Applying.
	Missing() int
	// Open is the block that is not sealed yet, and how many transactions it has. Applying.
	Open() (number uint64, txs int)
	// Sync makes durable all that was applied before it. It may run beside Apply.
	Sync() error
	// CatchUp fetches sealed blocks from other orderers until there are height of them, or ctx ends. Applying.
	CatchUp(ctx context.Context, height uint64) error
	// SealBy has blocks signed by sealer in place of the orderer's own signature. Of Open.
	SealBy(sealer chain.Sealer)

	// Check says why a transaction may not be ordered by the configuration in force. The answer follows from the two
	// alone: unlike the check before Submit it does not ask whether a certificate has expired. A configuration is for
	// Change. Any goroutine may ask.
	Check(tx []byte) error
	// Refuse tells all who wait here for a transaction why it does not get into the log, where that is found out after
	// Submit. Any goroutine may call it.
	Refuse(tx [32]byte, why error)
	// Change says what a configuration transaction would do to the members, or why it cannot come into force. Applying.
	Change(tx []byte) (channelconfig.Change, error)
	// Members are the ids of the members after the last configuration that was applied. Applying.
	Members() []uint64
	// Knows reports whether a member has this id, or will have it by a configuration ahead, and is not this orderer.
	// Any goroutine may ask.
	Knows(id uint64) bool
	// LeaderChanged says who led and who leads now; 0: none. Applying.
	LeaderChanged(before, leader uint64)

	// Send queues a message for another member. It never waits, and may lose the message. Any goroutine may call it.
	Send(to uint64, m Message)
	// Registry is for series of the consenter's own, which have the channel's name as a label. Of Open.
	Registry() prometheus.Registerer
}

// Message is one for another member.
type Message struct {
	// Payload is what its Step gets, marshalled. It is marshalled later: it must not change after Send. Bytes that are
	// not a protobuf message go as a wrapperspb.BytesValue.
	Payload proto.Message
	// Sent is called once when the message has left or is lost, by a goroutine that must not wait; it may be nil.
	Sent func(left bool)
}

// Settle tells the sender whether the message has left.
func (m Message) Settle(left bool) {
	if m.Sent != nil {
		m.Sent(left)
	}
}
