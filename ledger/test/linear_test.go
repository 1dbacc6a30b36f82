package test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var linearRounds = flag.Int("linear.rounds", 1, "how often TestLinearizable kills each kind of node in turn")

// What clients do to a key. All three are submitted: what a peer evaluates for itself may be
// older than what another one has committed.
const (
	opPut    = "put"    // writes
	opGet    = "get"    // reads; it is valid only where the value is still the newest when it is ordered
	opUpdate = "update" // writes, and reads what it replaces
)

// call is an operation on one key.
type call struct {
	kind, key, value string
}

// answer is what a client saw; of an operation that may or may not have happened, nothing.
type answer struct {
	read  string
	known bool
}

// register is a key: each write replaces the value, each read returns the newest.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (byKey [][]porcupine.Operation) {
		keys := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(call).key
			keys[key] = append(keys[key], op)
		}
		for _, ops := range keys {
			byKey = append(byKey, ops)
		}
		return byKey
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(call), output.(answer)
		fits := in.kind == opPut || !out.known || out.read == state.(string)
		if in.kind == opGet {
			return fits, state
		}
		return fits, in.value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// fate is how a transaction ended.
type fate int

const (
	happened fate = iota
	failed        // it certainly has no effect
	unknown       // it may have one, now or later
)

// attempt takes one transaction through a gateway and gives what the contract returned. The error is of a message that cannot
// be made, or that the gateway should not have sent: no network's state excuses it.
func (u *user) attempt(ctx context.Context, gateway gatewaypb.GatewayClient, args ...string) (string, fate, error) {
	signed, id, err := u.proposal(args...)
	if err != nil {
		return "", failed, err
	}
	endorsed, err := gateway.Endorse(ctx, &gatewaypb.EndorseRequest{TransactionId: id, ChannelId: u.g.file.Channels[0], ProposedTransaction: signed})
	if err != nil {
		return "", failed, nil // nothing was sent to be ordered
	}
	tx := endorsed.GetPreparedTransaction()
	if tx.Signature, err = u.signer.Sign(tx.Payload); err != nil {
		return "", failed, err
	}
	if _, err = gateway.Submit(ctx, &gatewaypb.SubmitRequest{TransactionId: id, ChannelId: u.g.file.Channels[0], PreparedTransaction: tx}); err != nil {
		return "", unknown, nil
	}
	request, err := u.statusOf(id)
	if err != nil {
		return "", unknown, err
	}
	status, err := gateway.CommitStatus(ctx, request)
	if err != nil {
		return "", unknown, nil
	}
	if status.GetResult() != peerpb.TxValidationCode_VALID {
		return "", failed, nil
	}
	value, err := returned(tx)
	return value, happened, err
}

// statusOf asks for the verdict on a transaction.
func (u *user) statusOf(id string) (*gatewaypb.SignedCommitStatusRequest, error) {
	request, err := proto.Marshal(&gatewaypb.CommitStatusRequest{TransactionId: id, ChannelId: u.g.file.Channels[0], Identity: u.signer.Serialized()})
	if err != nil {
		return nil, err
	}
	signature, err := u.signer.Sign(request)
	return &gatewaypb.SignedCommitStatusRequest{Request: request, Signature: signature}, err
}

// returned reads the contract's answer out of a transaction.
func returned(tx *commonpb.Envelope) (string, error) {
	var payload commonpb.Payload
	var body peerpb.Transaction
	var action peerpb.ChaincodeActionPayload
	var response peerpb.ProposalResponsePayload
	var result peerpb.ChaincodeAction
	var err error
	read := func(raw []byte, into proto.Message) {
		if err == nil {
			err = proto.Unmarshal(raw, into)
		}
	}
	read(tx.Payload, &payload)
	read(payload.Data, &body)
	if err == nil && len(body.Actions) != 1 {
		err = fmt.Errorf("a transaction with %d actions", len(body.Actions))
	}
	if err != nil {
		return "", err
	}
	read(body.Actions[0].Payload, &action)
	read(action.GetAction().GetProposalResponsePayload(), &response)
	read(response.Extension, &result)
	return string(result.GetResponse().GetPayload()), err
}

// history collects operations from many clients.
type history struct {
	start time.Time
	stop  atomic.Bool
	begun atomic.Int64 // operations
	mu    sync.Mutex
	ops   []porcupine.Operation
	fates [3]int
}

// record adds an operation. One that may still happen ends never; a read of which nothing is
// known, and what has failed, say nothing.
func (h *history) record(client int, c call, began time.Time, read string, f fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fates[f]++
	if f == failed || f == unknown && c.kind == opGet {
		return
	}
	op := porcupine.Operation{ClientId: client, Input: c, Call: int64(began.Sub(h.start)), Output: answer{read, f == happened}, Return: int64(time.Since(h.start))}
	if f == unknown {
		op.Return = int64(24 * time.Hour)
	}
	h.ops = append(h.ops, op)
}

const (
	linearClients = 6
	linearKeys    = 10 // that are used at one time
	// linearPerKey is how many operations a key has on average until others take its place: the search for an order of those on
	// one key grows with how many there are.
	linearPerKey = 40
	// linearPause follows an operation of unknown end: each of them may be anywhere in the order
	// ever after, so that many of them on one key make the search for an order endless.
	linearPause = 500 * time.Millisecond
)

// key is one of those that are used now.
func (h *history) key(random *rand.Rand) string {
	before := (h.begun.Add(1) - 1) / (linearKeys * linearPerKey) // sets of keys that are used no more
	return fmt.Sprint("key", linearKeys*before+random.Int64N(linearKeys))
}

// client works until it is told to stop; where an operation does not happen it goes to the next peer.
func (h *history) client(u *user, number int, gateways []gatewaypb.GatewayClient) error {
	random := rand.New(rand.NewPCG(1, uint64(number)))
	at := number
	for i := 0; !h.stop.Load(); i++ {
		c := call{kind: []string{opPut, opGet, opUpdate}[random.IntN(3)], key: h.key(random), value: fmt.Sprintf("%d/%d", number, i)}
		args := []string{c.kind, c.key, c.value}
		if c.kind == opGet {
			args = args[:2]
		}
		ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
		began := time.Now()
		read, f, err := u.attempt(ctx, gateways[at%len(gateways)], args...)
		cancel()
		if err != nil {
			return err
		}
		h.record(number, c, began, read, f)
		// Also where a gateway endorses nothing: clients that all stay with a dead one say nothing of the others.
		if f != happened {
			at++
		}
		if f == unknown {
			time.Sleep(linearPause)
		}
		// Others get a turn: the search for an order grows with what overlaps.
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
	return nil
}

// TestLinearizable: what clients of several peers see of a few keys fits one order of all operations,
// in which each takes effect between its call and its answer, while nodes are killed and come back.
func TestLinearizable(t *testing.T) {
	for _, consenter := range []string{"raft", "bft"} {
		t.Run(consenter, func(t *testing.T) {
			linearizable(t, "--consenter", consenter, "--orderers", map[string]string{"raft": "3", "bft": "4"}[consenter])
		})
	}
}

func linearizable(t *testing.T, options ...string) {
	g := newGrid(t, append(options, "--peers-per-org", "1", "--chaincode", kv)...)
	u := g.user()
	u.ctx = context.Background() // each call has a limit of its own
	var gateways []gatewaypb.GatewayClient
	for _, peer := range g.named("peer") {
		gateways = append(gateways, gatewaypb.NewGatewayClient(u.dial(peer)))
		g.awaitLog(peer, "is connected") // the chaincode
	}
	h := &history{start: time.Now()}
	var clients errgroup.Group
	for number := range linearClients {
		clients.Go(func() error { return h.client(u, number, gateways) })
	}
	end := sync.OnceValue(func() error { h.stop.Store(true); return clients.Wait() })
	defer func() { _ = end() }()
	g.progress("peer0-org2", 50)
	for range *linearRounds {
		for _, victim := range []string{"leader", "peer0-org1", "leader", "peer0-org2", "orderer2"} {
			witness := "peer0-org2"
			switch victim {
			case witness:
				witness = "peer0-org1"
			case "leader":
				victim = g.leader()
			}
			g.kill(victim, syscall.SIGKILL)
			g.progress(witness, 40)
			g.start(victim)
			g.awaitReady(victim)
			g.progress(witness, 20)
		}
	}
	require.NoError(t, end())
	t.Logf("%d operations: %d happened, %d failed, %d may have happened", len(h.ops), h.fates[happened], h.fates[failed], h.fates[unknown])
	require.Positive(t, h.fates[happened])
	assert.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(register, h.ops, patience))
	h.spoil(t)
	g.agree(nil)
}

// spoil makes sure that the check can fail: one read that returns what nobody wrote is no order's.
func (h *history) spoil(t *testing.T) {
	t.Helper()
	for i := range h.ops {
		if c, a := h.ops[i].Input.(call), h.ops[i].Output.(answer); c.kind == opGet && a.known {
			h.ops[i].Output = answer{read: "nobody's", known: true}
			assert.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(register, h.ops, patience))
			return
		}
	}
	t.Error("no read has happened")
}

// leader is the orderer that leads.
func (g *grid) leader() (name string) {
	g.t.Helper()
	g.eventually("an orderer leads", func() bool {
		for _, orderer := range g.named("orderer") {
			if g.nodes[orderer] != nil && g.counter(orderer, "consensus_etcdraft_is_leader") == 1 {
				name = orderer
				return true
			}
		}
		return false
	})
	return name
}
