package orderer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft/liar"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
	zyzzyvaliar "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva/liar"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// liarEnv has a process lie about the order, or with this value be late with everything. liesEnv is the file in which each
// of its lies is a line.
const (
	liarEnv = "QIOI_TEST_LIAR"
	isLate  = "late"
	liesEnv = "QIOI_TEST_LIES"
)

// Habits of these processes beside those of their liars.
const (
	spoilsSeals lies.Habit = "spoils seals"
	comesLate   lies.Habit = "comes late"
)

// confess writes each lie down. A process that is killed has told no more of them.
func confess() func(lies.Habit) {
	f, err := os.OpenFile(os.Getenv(liesEnv), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	return func(h lies.Habit) { _, _ = fmt.Fprintln(f, h) }
}

// confessed is how often each lie was told.
func (c *testCluster) confessed(file string) map[lies.Habit]int {
	c.t.Helper()
	raw, err := os.ReadFile(file)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(c.t, err)
	}
	told := map[lies.Habit]int{}
	for line := range strings.Lines(string(raw)) {
		told[lies.Habit(strings.TrimSpace(line))]++
	}
	return told
}

// lying is PBFT by a replica with every bad habit.
var lying = consensus.Kind{
	Log: replica.PBFT.Log, Folder: replica.PBFT.Folder,
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		told, honest := confess(), replica.ProtocolOfPBFT(s)
		protocol := honest
		protocol.New = func(o bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			group := bft.Group{}
			for id := range s.Founders {
				group.Members = append(group.Members, id+1)
			}
			cfg := lies.Config{ID: s.ID, Domain: s.Channel, Group: group, Window: 512, Every: true, Told: told}
			return &lyingCore{Core: honest.New(o, state, records), liar: liar.New(rand.New(rand.NewPCG(1, 1)), cfg, o)}
		}
		return replica.Open(s, spoiling{host, told}, protocol)
	},
}

// spoiling is a host whose replica's signatures of blocks are none.
type spoiling struct {
	consensus.Host
	told func(lies.Habit)
}

// sealOfBlock is what a replica's message with such a signature begins with.
const sealOfBlock = 2

func (s spoiling) Send(to uint64, m consensus.Message) {
	if b, is := m.Payload.(*wrapperspb.BytesValue); is && b.Value[0] == sealOfBlock {
		spoilt := slices.Clone(b.Value)
		spoilt[len(spoilt)-1] ^= 1
		m.Payload = wrapperspb.Bytes(spoilt)
		s.told(spoilsSeals)
	}
	s.Host.Send(to, m)
}

// late is PBFT by a replica that does everything right, a little sooner than the others would give it up.
var late = consensus.Kind{
	Log: replica.PBFT.Log, Folder: replica.PBFT.Folder,
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		protocol := replica.ProtocolOfPBFT(s)
		honest := protocol.New
		protocol.New = func(o bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			return &lateCore{Core: honest(o, state, records), by: s.Bundle().Orderer.BFT.ViewChangeTimeout * 2 / 5, told: confess()}
		}
		return replica.Open(s, host, protocol)
	},
}

// lateCore keeps what its core says for a while.
type lateCore struct {
	bft.Core
	by   bft.Time
	told func(lies.Habit)
	kept []keptMessage
}

type keptMessage struct {
	due bft.Time
	bft.Outgoing
}

func (l *lateCore) Step(now bft.Time, in bft.Input) bft.Effects {
	e := l.Core.Step(now, in)
	for _, out := range append(e.AtOnce, e.Send...) {
		l.kept = append(l.kept, keptMessage{now + l.by, out})
	}
	e.AtOnce, e.Send = nil, nil
	for len(l.kept) > 0 && l.kept[0].due <= now {
		e.Send, l.kept = append(e.Send, l.kept[0].Outgoing), l.kept[1:]
		l.told(comesLate)
	}
	if len(l.kept) > 0 && (e.Deadline == 0 || e.Deadline > l.kept[0].due) {
		e.Deadline = l.kept[0].due
	}
	return e
}

// lyingByZyzzyva is the same for Zyzzyva.
var lyingByZyzzyva = consensus.Kind{
	Log: replica.Zyzzyva.Log, Folder: replica.Zyzzyva.Folder,
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		honest := replica.ProtocolOfZyzzyva(s)
		protocol := honest
		protocol.New = func(o bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			group := bft.Group{}
			for id := range s.Founders {
				group.Members = append(group.Members, id+1)
			}
			cfg := lies.Config{ID: s.ID, Domain: s.Channel, Group: group, Window: 512, Every: true, Told: confess()}
			return &lyingCore{Core: honest.New(o, state, records), liar: zyzzyvaliar.New(rand.New(rand.NewPCG(1, 1)), cfg, o)}
		}
		return replica.Open(s, host, protocol)
	},
}

// lyingCore has a liar say what the core would.
type lyingCore struct {
	bft.Core
	liar    sim.Liar
	schemes bft.Time
}

// anyClient is one that a liar tells another history than most.
const anyClient bft.ID = 1 << 63

const schemesEvery = 300 * time.Millisecond

func (l *lyingCore) Step(now bft.Time, in bft.Input) bft.Effects {
	e := l.Core.Step(now, in)
	honest := append(e.AtOnce, e.Send...)
	answers := e.Answer
	e.AtOnce, e.Send, e.Fault = nil, nil, nil
	for _, out := range honest {
		e.Send = append(e.Send, l.liar.Says(out)...)
	}
	e.Answer = nil
	for _, a := range answers {
		for _, said := range l.liar.Says(bft.Outgoing{To: anyClient, Message: a.Message}) {
			if _, answers := said.Message.(*zyzzyva.Response); answers {
				e.Answer = append(e.Answer, bft.Answer{Entry: a.Entry, Message: said.Message})
			}
		}
	}
	if m, is := in.(bft.Received); is {
		e.Send = append(e.Send, l.liar.Hears(m.From, m.Message)...)
	}
	if now >= l.schemes {
		l.schemes = now + schemesEvery
		e.Send = append(e.Send, l.liar.Schemes()...)
	}
	if e.Deadline == 0 || e.Deadline > l.schemes {
		e.Deadline = l.schemes
	}
	return e
}

// chancy are the habits that wait for something of others: that they have the liar lead a view, ask it for an entry, or have
// sent a proposal that it still remembers. The simulator has all of them heard.
var chancy = []lies.Habit{"equivocates", "votes for all", "forgets", "chooses", "swaps", "usurps", "claims"}

// certain are all others.
func certain() (habits []lies.Habit) {
	return slices.DeleteFunc(append(slices.Clone(liar.Habits), spoilsSeals), func(h lies.Habit) bool { return slices.Contains(chancy, h) })
}

// TestOneOfFourLies: real processes, of which one equivocates, withholds, forges, repeats, floods and asks for ever new
// views. The others order what clients give them until it has told each lie that it surely can, and have the same blocks; the
// liar is killed and lies again.
func TestOneOfFourLies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for liar := range 2 { // the leader of the first view, and of the second
		t.Run(fmt.Sprintf("orderer %d", liar+1), func(t *testing.T) {
			c := newCluster(t, bftOf(4))
			var end [4]func(os.Signal)
			var honest []int
			for i := range 4 {
				if i != liar {
					honest = append(honest, i)
					end[i], _ = c.spawnProcess(i, nil)
				}
			}
			var told []string
			for life := range 2 {
				file := filepath.Join(c.dir, fmt.Sprint("lies", life))
				end[liar], _ = c.spawnProcess(liar, []string{liarEnv + "=1", liesEnv + "=" + file})
				for n := 0; n < 30 || !c.hasTold(file, certain()); n++ {
					require.Less(t, n, 2000, "the liar told no more than %v", c.confessed(file))
					text := fmt.Sprint("tx", life, ".", n)
					c.orderAt(honest[n%3], text)
					told = append(told, text)
				}
				t.Log("told:", c.confessed(file))
				if life == 0 {
					end[liar](syscall.SIGKILL)
				}
			}
			c.endAlike(honest, told, end)
		})
	}
}

// TestALeaderThatIsLate with all that it says, and never late enough to be left: what it leads takes long, is ordered, and is
// the same everywhere.
func TestALeaderThatIsLate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t, bftOf(4))
	file := filepath.Join(c.dir, "lies")
	var end [4]func(os.Signal)
	for i := range 4 {
		var env []string
		if i == 0 {
			env = []string{liarEnv + "=" + isLate, liesEnv + "=" + file}
		}
		end[i], _ = c.spawnProcess(i, env)
	}
	var told []string
	var clients errgroup.Group
	for n := range 24 {
		text := fmt.Sprint("tx", n)
		told = append(told, text)
		clients.Go(func() error { return c.ordersAt(1+n%3, text) })
	}
	require.NoError(t, clients.Wait())
	require.Positive(t, c.confessed(file)[comesLate])
	c.endAlike([]int{1, 2, 3}, told, end)
}

// hasTold reports whether a liar has told all these lies.
func (c *testCluster) hasTold(file string, habits []lies.Habit) bool {
	c.t.Helper()
	told := c.confessed(file)
	return !slices.ContainsFunc(habits, func(h lies.Habit) bool { return told[h] == 0 })
}

// endAlike waits until these orderers have sealed all that was told, ends them, and compares their chains.
func (c *testCluster) endAlike(orderers []int, told []string, end [4]func(os.Signal)) {
	c.t.Helper()
	for _, i := range orderers {
		c.seesAll(i, told)
	}
	for _, i := range orderers {
		end[i](syscall.SIGTERM)
	}
	var first []string
	for _, i := range orderers {
		hashes, texts := c.chainOnDisk(i, ch)
		require.Subset(c.t, texts, told, "orderer %d", i+1)
		if first == nil {
			first = hashes
		}
		n := min(len(first), len(hashes)) // an orderer that was ended later may have a block more
		require.Equal(c.t, first[:n], hashes[:n], "orderers %d and %d", orderers[0]+1, i+1)
	}
}

// seesAll follows an orderer until it has given all these transactions, and sealed the last of them. A liar that leads may order
// some of them twice.
func (c *testCluster) seesAll(i int, told []string) {
	c.t.Helper()
	left := map[string]bool{}
	for _, text := range told {
		left[text] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream := c.follow(ctx, i, ch, &streampb.Position{Block: 1})
	for sealed := false; !sealed; {
		batch, err := stream.Recv()
		require.NoError(c.t, err, "orderer %d lacks %v", i+1, left)
		for _, item := range batch.Items {
			if tx := item.GetTx(); tx != nil {
				msg, err := protoutil.ParseEnvelope(tx)
				require.NoError(c.t, err)
				delete(left, string(msg.Data))
			}
			sealed = len(left) == 0 && item.GetSeal() != nil
		}
	}
}
