package etcdraft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// TestScripts runs groups of nodes step by step, in one goroutine: nothing happens but what
// the script says, so no clock and no chance decide. Commands:
//
//	new voters=N                starts a group; with hold, messages without entries are held back; with spare, those to
//	                            followers that no majority needs
//	campaign node=N             stands for election, as if its election timeout had run out
//	forget node=N               has not heard of its leader for that long
//	tick node=N count=N         lets its clock go on
//	propose node=N              one log entry of the input's lines, none: of what waits
//	cut node=N                  its timer ends the open block
//	deliver                     messages travel, and what they cause, until there are none
//	release node=N              what it holds back has waited long enough
//	isolate node=N, heal        messages from and to N are lost
//	unreachable node=N to=M     N's connection to M breaks
//	restart node=N              SIGKILL: what was not in a sealed block comes from the log
//	join node=N                 starts a node that is no member yet, with the blocks of the others
//	alive node=N                says whom this leader has heard of
//
// A transaction +N or -N is a configuration that adds or removes that member, =N one that changes its certificate. After one,
// what begins with "revoked" may no longer be ordered. Clients' transactions were checked before any configuration but the
// first, unless propose has checked.
//
// The output is what changed: leaders, refusals, and each node's chain, sealed blocks in
// brackets. Rewrite with -rewrite.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var g *group
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var id, count int
			d.MaybeScanArgs(t, "node", &id)
			d.MaybeScanArgs(t, "count", &count)
			if d.Cmd == "new" {
				var voters int
				d.ScanArgs(t, "voters", &voters)
				g = newGroup(t, voters, d.HasArg("hold"), d.HasArg("spare"))
				return g.changes()
			}
			g.t = t
			g.do(d, uint64(id), count)
			return g.changes()
		})
	})
}

const heldFor = time.Hour

func (g *group) do(d *datadriven.TestData, id uint64, count int) {
	n := g.nodes[id]
	switch d.Cmd {
	case "campaign":
		require.NoError(g.t, n.raft.Campaign())
	case "forget":
		require.NoError(g.t, n.raft.ForgetLeader())
	case "tick":
		for range count {
			n.tick()
			g.ready(id)
		}
	case "propose":
		g.checked = 0
		if d.HasArg("checked") {
			g.checked = g.machines[id-1].sequence()
		}
		g.propose(id, strings.FieldsFunc(d.Input, func(r rune) bool { return r == '\n' }))
	case "cut":
		n.proposeCut()
	case "deliver":
		g.deliver()
	case "release":
		n.outbox.sendDue(time.Now().Add(2 * heldFor))
	case "unreachable":
		var to int
		d.ScanArgs(g.t, "to", &to)
		n.stepReport(report{to: uint64(to)})
	case "isolate":
		g.lost[id] = true
	case "heal":
		clear(g.lost)
	case "restart":
		g.restart(id)
	case "join":
		g.machines = append(g.machines, &machine{group: g, id: id})
		g.machines[id-1].copy(g.machines[0])
		g.open(id)
	case "alive":
		ids := n.alive()
		slices.Sort(ids)
		g.say("%d has heard of %v", id, ids)
	default:
		d.Fatalf(g.t, "unknown command %s", d.Cmd)
	}
	for id := range g.machines {
		g.ready(uint64(id) + 1)
	}
}

// copy gives the machine all sealed blocks of another one, as following it does.
func (m *machine) copy(from *machine) {
	m.blocks, m.ends, m.open = slices.Clone(from.blocks), slices.Clone(from.ends), nil
}

// group is a channel's consenters.
type group struct {
	t        *testing.T
	dir      string
	voters   []uint64
	hold     bool
	spare    bool
	nodes    map[uint64]*Node
	machines []*machine // by id - 1
	mail     []*raftpb.Message
	lost     map[uint64]bool
	checked  uint64 // by which configuration proposals were checked
	said     []string
	shown    map[string]string
}

func newGroup(t *testing.T, voters int, hold, spare bool) *group {
	g := &group{t: t, hold: hold, spare: spare, dir: t.TempDir(), nodes: map[uint64]*Node{}, lost: map[uint64]bool{}, shown: map[string]string{}}
	for id := range voters {
		g.voters = append(g.voters, uint64(id)+1)
		g.machines = append(g.machines, &machine{group: g, id: uint64(id) + 1})
	}
	for _, id := range g.voters {
		g.open(id)
	}
	return g
}

func (g *group) open(id uint64) {
	m := g.machines[id-1]
	var hold, spareHold time.Duration
	if g.hold {
		hold = heldFor
	}
	if g.spare {
		spareHold = heldFor
	}
	var voters []uint64 // one who joins names none
	if slices.Contains(g.voters, id) {
		voters = g.voters
	}
	n, err := Open(Config{
		Channel: "ch", ID: id, Voters: voters, Dir: filepath.Join(g.dir, strconv.Itoa(int(id))),
		Raft:        channelconfig.RaftOptions{TickInterval: time.Hour, ElectionTick: 10, HeartbeatTick: 1, SnapshotInterval: 1 << 30},
		CutInterval: func() time.Duration { return time.Hour }, Sequence: m.sequence, Delays: Delays{Hold: hold, SpareHold: spareHold},
	}, m)
	require.NoError(g.t, err)
	require.NoError(g.t, n.start(context.Background()))
	g.nodes[id] = n
	g.t.Cleanup(func() { _ = n.log.Close() })
	g.ready(id)
}

// restart kills a node and starts it again: what it had not given to the kernel yet is lost.
func (g *group) restart(id uint64) {
	dir := filepath.Join(g.dir, strconv.Itoa(int(id)))
	left := filepath.Join(g.t.TempDir(), "left")
	require.NoError(g.t, os.CopyFS(left, os.DirFS(dir)))
	require.NoError(g.t, g.nodes[id].log.Close())
	require.NoError(g.t, os.RemoveAll(dir))
	require.NoError(g.t, os.Rename(left, dir))
	m := g.machines[id-1]
	m.open, m.leader = nil, 0
	g.mail = slices.DeleteFunc(g.mail, func(m *raftpb.Message) bool { return m.GetFrom() == id || m.GetTo() == id })
	g.open(id)
}

func (g *group) ready(id uint64) {
	if g.nodes[id] == nil {
		return
	}
	err := g.nodes[id].handleReady(context.Background())
	if errors.Is(err, consensus.ErrRemoved) {
		g.say("%d is removed", id)
		require.NoError(g.t, g.nodes[id].log.Close())
		delete(g.nodes, id)
		return
	}
	require.NoError(g.t, err)
}

func (g *group) propose(id uint64, texts []string) {
	n := g.nodes[id]
	for _, text := range texts {
		p := consensus.Proposal{Tx: []byte(text), Config: isConfig(text), Sequence: g.checked, Settle: func(err error) { g.say("%s refused at %d: %s", text, id, err) }}
		if err := n.Submit(p); err != nil {
			p.Settle(err)
		}
	}
	select {
	case p := <-n.accepting():
		n.propose(p)
	default:
	}
}

func (g *group) deliver() {
	for len(g.mail) > 0 {
		m := g.mail[0]
		g.mail = g.mail[1:]
		if g.lost[m.GetFrom()] || g.lost[m.GetTo()] || g.nodes[m.GetTo()] == nil {
			continue
		}
		g.nodes[m.GetTo()].take(m)
		g.ready(m.GetTo())
	}
}

func (g *group) say(format string, args ...any) {
	g.said = append(g.said, fmt.Sprintf(format, args...))
}

// changes is what is different from the time before.
func (g *group) changes() string {
	out := g.said
	g.said = nil
	for _, m := range g.machines {
		key := fmt.Sprintf("%d", m.id)
		if now := m.String(); g.shown[key] != now {
			g.shown[key] = now
			out = append(out, now)
		}
	}
	return strings.Join(out, "\n")
}

// machine is a node's host.
type machine struct {
	consensus.Host // what no node of Raft asks for
	group          *group
	id             uint64
	leader         uint64
	blocks         []string
	ends           []chain.Applied // where each of them ends in the log
	open           []string
}

func isConfig(tx string) bool { return strings.ContainsRune("+-=", rune(tx[0])) }

func (m *machine) String() string {
	text := strings.Join(m.blocks, " ")
	if len(m.open) > 0 {
		text += " [" + strings.Join(m.open, " ")
	}
	return strings.TrimRight(fmt.Sprintf("%d follows %d: %s", m.id, m.leader, strings.TrimSpace(text)), " ")
}

func (m *machine) Apply(first uint64, entries ...*streampb.LogEntry) error {
	for i, entry := range entries {
		m.apply(first+uint64(i), entry)
	}
	return nil
}

func (m *machine) apply(index uint64, entry *streampb.LogEntry) {
	if index <= m.Applied().Index {
		return // it is in a sealed block
	}
	for i, tx := range entry.Txs {
		if isConfig(string(tx)) {
			m.seal(chain.Applied{Index: index, Txs: uint32(i)})
		}
		m.open = append(m.open, string(tx))
		if isConfig(string(tx)) {
			m.seal(chain.Applied{Index: index, Txs: uint32(i) + 1})
		}
	}
	if entry.Cut && (entry.CutBlock == 0 || entry.CutBlock == m.Height()) {
		m.seal(chain.Applied{Index: index, Txs: uint32(len(entry.Txs))})
	}
}

func (m *machine) seal(at chain.Applied) {
	if len(m.open) > 0 {
		m.blocks, m.ends, m.open = append(m.blocks, "["+strings.Join(m.open, " ")+"]"), append(m.ends, at), nil
	}
}

func (m *machine) Applied() chain.Applied {
	if len(m.ends) == 0 {
		return chain.Applied{}
	}
	return m.ends[len(m.ends)-1]
}

func (m *machine) Members() []uint64 {
	ids := slices.Clone(m.group.voters)
	for _, block := range m.blocks {
		id := uint64(block[len(block)-2] - '0')
		switch block[1] {
		case '+':
			ids = append(ids, id)
		case '-':
			ids = slices.DeleteFunc(ids, func(other uint64) bool { return other == id })
		}
	}
	return ids
}

func (m *machine) Change(tx []byte) (c channelconfig.Change, err error) {
	id := uint64(tx[1] - '0')
	is := slices.Contains(m.Members(), id)
	switch {
	case tx[0] == '+' && !is:
		c.Added = id
	case tx[0] == '-' && is:
		c.Removed = id
	case tx[0] == '=' && is:
		c.Rotated = id
	default:
		err = channelconfig.ErrInvalid
	}
	return c, err
}

// sequence is the number of the configuration in force.
func (m *machine) sequence() (n uint64) {
	for _, block := range m.blocks {
		if isConfig(block[1:]) {
			n++
		}
	}
	return n
}

func (m *machine) Check(tx []byte) error {
	m.group.say("%d checks %s again", m.id, tx)
	if m.sequence() > 0 && strings.HasPrefix(string(tx), "revoked") {
		return errors.New("its client is revoked")
	}
	return nil
}

func (m *machine) Height() uint64      { return uint64(len(m.blocks)) + 1 }
func (m *machine) Open() (uint64, int) { return m.Height(), len(m.open) }
func (m *machine) Sync() error         { return nil }

func (m *machine) CatchUp(_ context.Context, height uint64) error {
	for _, other := range m.group.machines {
		if m.Height() < height && other.Height() >= height {
			m.copy(other)
			m.blocks, m.ends = m.blocks[:height-1], m.ends[:height-1]
		}
	}
	return nil
}

func (m *machine) LeaderChanged(_, leader uint64) { m.leader = leader }

func (m *machine) Send(_ uint64, message consensus.Message) {
	m.group.mail = append(m.group.mail, proto.Clone(message.Payload).(*raftpb.Message))
	if message.Sent != nil {
		message.Sent(true)
	}
}
