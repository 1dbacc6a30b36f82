// Package shimtest is a small peer side of the shim protocol for tests of the
// shim and of contracts: a map as state, one chaincode, over a real gRPC stream.
package shimtest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sort"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/shim"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/queryresultpb"
)

// batchSize is small so that short ranges already need QUERY_STATE_NEXT.
const batchSize = 2

// Peer drives one chaincode.
type Peer struct {
	ID    string // what the chaincode registered as
	Calls []peerpb.ChaincodeMessage_Type
	// Refuse is a key: batches of writes with it are refused. It is set before transactions begin.
	Refuse string

	t      *testing.T
	stream grpc.BidiStreamingClient[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]

	mu      sync.Mutex
	state   map[string][]byte
	writes  map[string]map[string][]byte // tx id -> key -> value, nil for a deletion
	queries map[string][]*peerpb.QueryResultBytes
	results map[string]chan *peerpb.ChaincodeMessage
	ids     int
}

// Start serves contract and connects to it, up to READY, as a peer before Fabric 3.1.
func Start(t *testing.T, contract shim.Contract) *Peer {
	t.Helper()
	return StartOffering(t, contract, nil)
}

// StartOffering is Start as a peer that offers batched reads and writes.
func StartOffering(t *testing.T, contract shim.Contract, offer *peerpb.ChaincodeAdditionalParams) *Peer {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- shim.NewServer("test:1.0", contract, nil).Serve(ctx, listener) }()
	conn, err := grpc.NewClient("passthrough:///chaincode", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	require.NoError(t, err)
	stream, err := peerpb.NewChaincodeClient(conn).Connect(ctx)
	require.NoError(t, err)
	p := &Peer{
		t: t, stream: stream, state: map[string][]byte{}, writes: map[string]map[string][]byte{},
		queries: map[string][]*peerpb.QueryResultBytes{}, results: map[string]chan *peerpb.ChaincodeMessage{},
	}
	register, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, peerpb.ChaincodeMessage_REGISTER, register.GetType())
	id := &peerpb.ChaincodeID{}
	require.NoError(t, proto.Unmarshal(register.GetPayload(), id))
	p.ID = id.GetName()
	offered, err := proto.Marshal(offer)
	require.NoError(t, err)
	p.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_REGISTERED, Payload: offered})
	p.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_READY})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.loop()
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
		<-done
		require.NoError(t, conn.Close())
	})
	return p
}

// Send puts a message on the stream as it is.
func (p *Peer) Send(msg *peerpb.ChaincodeMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendLocked(msg)
}

func (p *Peer) sendLocked(msg *peerpb.ChaincodeMessage) {
	if err := p.stream.Send(msg); err != nil {
		p.t.Logf("the test peer could not send: %s", err)
	}
}

// Begin starts a transaction; its last message comes out of the channel.
func (p *Peer) Begin(proposal *peerpb.SignedProposal, args ...string) (string, <-chan *peerpb.ChaincodeMessage) {
	input := &peerpb.ChaincodeInput{}
	for _, arg := range args {
		input.Args = append(input.Args, []byte(arg))
	}
	payload, err := proto.Marshal(input)
	require.NoError(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	tx, result := "tx"+strconv.Itoa(p.ids), make(chan *peerpb.ChaincodeMessage, 1)
	p.results[tx], p.writes[tx] = result, map[string][]byte{}
	p.sendLocked(&peerpb.ChaincodeMessage{
		Type: peerpb.ChaincodeMessage_TRANSACTION, Txid: tx, ChannelId: "mychannel", Payload: payload, Proposal: proposal,
	})
	return tx, result
}

// Invoke runs one transaction, and commits its writes when its status is 200.
func (p *Peer) Invoke(args ...string) *peerpb.Response {
	p.t.Helper()
	response, _ := p.InvokeSigned(nil, args...)
	return response
}

// InvokeSigned is Invoke with a proposal; it returns the event as well.
func (p *Peer) InvokeSigned(proposal *peerpb.SignedProposal, args ...string) (*peerpb.Response, *peerpb.ChaincodeEvent) {
	p.t.Helper()
	tx, result := p.Begin(proposal, args...)
	msg := <-result
	require.Equal(p.t, peerpb.ChaincodeMessage_COMPLETED, msg.GetType(), "%s", msg.GetPayload())
	response := &peerpb.Response{}
	require.NoError(p.t, proto.Unmarshal(msg.GetPayload(), response))
	p.mu.Lock()
	defer p.mu.Unlock()
	if response.GetStatus() == shim.StatusOK {
		for key, value := range p.writes[tx] {
			if value == nil {
				delete(p.state, key)
				continue
			}
			p.state[key] = value
		}
	}
	return response, msg.GetChaincodeEvent()
}

// OK runs a transaction that must succeed and returns its payload.
func (p *Peer) OK(args ...string) string {
	p.t.Helper()
	response := p.Invoke(args...)
	require.Equal(p.t, int32(shim.StatusOK), response.GetStatus(), response.GetMessage())
	return string(response.GetPayload())
}

// State is a copy of what is committed.
func (p *Peer) State() map[string][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.state)
}

func (p *Peer) loop() {
	for {
		msg, err := p.stream.Recv()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.Calls = append(p.Calls, msg.GetType())
		switch msg.GetType() {
		case peerpb.ChaincodeMessage_COMPLETED, peerpb.ChaincodeMessage_ERROR:
			if result, ok := p.results[msg.GetTxid()]; ok {
				p.write(msg.GetTxid(), msg.GetWrites())
				result <- msg
			}
		case peerpb.ChaincodeMessage_KEEPALIVE:
		default:
			p.sendLocked(p.answer(msg))
		}
		p.mu.Unlock()
	}
}

func (p *Peer) answer(msg *peerpb.ChaincodeMessage) *peerpb.ChaincodeMessage {
	payload, err := p.execute(msg)
	reply := &peerpb.ChaincodeMessage{
		Type: peerpb.ChaincodeMessage_RESPONSE, Payload: payload, Txid: msg.GetTxid(), ChannelId: msg.GetChannelId(),
	}
	if err != nil {
		reply.Type, reply.Payload = peerpb.ChaincodeMessage_ERROR, []byte(err.Error())
	}
	return reply
}

func (p *Peer) execute(msg *peerpb.ChaincodeMessage) ([]byte, error) {
	switch msg.GetType() {
	case peerpb.ChaincodeMessage_GET_STATE:
		q := &peerpb.GetState{}
		if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
			return nil, err
		}
		return p.state[q.GetKey()], nil
	case peerpb.ChaincodeMessage_PUT_STATE:
		q := &peerpb.PutState{}
		if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
			return nil, err
		}
		p.writes[msg.GetTxid()][q.GetKey()] = append([]byte{}, q.GetValue()...)
		return nil, nil
	case peerpb.ChaincodeMessage_DEL_STATE:
		q := &peerpb.DelState{}
		if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
			return nil, err
		}
		p.writes[msg.GetTxid()][q.GetKey()] = nil
		return nil, nil
	case peerpb.ChaincodeMessage_WRITE_BATCH_STATE:
		batch := &peerpb.WriteBatchState{}
		if err := proto.Unmarshal(msg.GetPayload(), batch); err != nil {
			return nil, err
		}
		for _, one := range batch.GetRec() {
			if p.Refuse != "" && one.GetKey() == p.Refuse {
				return nil, fmt.Errorf("%s must not be written", p.Refuse)
			}
		}
		p.write(msg.GetTxid(), batch)
		return nil, nil
	case peerpb.ChaincodeMessage_GET_STATE_MULTIPLE:
		q, result := &peerpb.GetStateMultiple{}, &peerpb.GetStateMultipleResult{}
		if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
			return nil, err
		}
		for _, key := range q.GetKeys() {
			result.Values = append(result.Values, p.state[key])
		}
		return proto.Marshal(result)
	case peerpb.ChaincodeMessage_GET_STATE_BY_RANGE:
		return p.rangeQuery(msg)
	case peerpb.ChaincodeMessage_QUERY_STATE_NEXT:
		q := &peerpb.QueryStateNext{}
		if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
			return nil, err
		}
		return p.batch(q.GetId(), nil)
	case peerpb.ChaincodeMessage_QUERY_STATE_CLOSE:
		q := &peerpb.QueryStateClose{}
		if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
			return nil, err
		}
		delete(p.queries, q.GetId())
		return nil, nil
	case peerpb.ChaincodeMessage_INVOKE_CHAINCODE:
		return invokeEcho(msg)
	default:
		return nil, fmt.Errorf("the test peer does not know %s", msg.GetType())
	}
}

func (p *Peer) write(tx string, batch *peerpb.WriteBatchState) {
	for _, one := range batch.GetRec() {
		value := append([]byte{}, one.GetValue()...)
		if one.GetType() == peerpb.WriteRecord_DEL_STATE {
			value = nil
		}
		p.writes[tx][one.GetKey()] = value
	}
}

func (p *Peer) rangeQuery(msg *peerpb.ChaincodeMessage) ([]byte, error) {
	q, page := &peerpb.GetStateByRange{}, &peerpb.QueryMetadata{}
	if err := proto.Unmarshal(msg.GetPayload(), q); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(q.GetMetadata(), page); err != nil {
		return nil, err
	}
	start := max(q.GetStartKey(), page.GetBookmark())
	keys := slices.Collect(maps.Keys(p.state))
	sort.Strings(keys)
	var about peerpb.QueryResponseMetadata
	var all []*peerpb.QueryResultBytes
	for _, key := range keys {
		if key < start || q.GetEndKey() != "" && key >= q.GetEndKey() {
			continue
		}
		if page.GetPageSize() > 0 && len(all) == int(page.GetPageSize()) {
			about.Bookmark = key
			break
		}
		kv, err := proto.Marshal(&queryresultpb.KV{Namespace: "test", Key: key, Value: p.state[key]})
		if err != nil {
			return nil, err
		}
		all = append(all, &peerpb.QueryResultBytes{ResultBytes: kv})
	}
	p.ids++
	id := "query" + strconv.Itoa(p.ids)
	p.queries[id] = all
	if page.GetPageSize() == 0 {
		return p.batch(id, nil)
	}
	about.FetchedRecordsCount = int32(len(all))
	metadata, err := proto.Marshal(&about)
	if err != nil {
		return nil, err
	}
	return p.batch(id, metadata)
}

func (p *Peer) batch(id string, metadata []byte) ([]byte, error) {
	left, ok := p.queries[id]
	if !ok {
		return nil, fmt.Errorf("query %q is not open", id)
	}
	n := min(batchSize, len(left))
	p.queries[id] = left[n:]
	more := len(left) > n
	if !more {
		delete(p.queries, id)
	}
	return proto.Marshal(&peerpb.QueryResponse{Results: left[:n], HasMore: more, Id: id, Metadata: metadata})
}

// OpenQueries counts range queries that were neither read to the end nor closed.
func (p *Peer) OpenQueries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queries)
}

// invokeEcho is the only other chaincode here: it answers with its name and its
// arguments.
func invokeEcho(msg *peerpb.ChaincodeMessage) ([]byte, error) {
	spec := &peerpb.ChaincodeSpec{}
	if err := proto.Unmarshal(msg.GetPayload(), spec); err != nil {
		return nil, err
	}
	text := []byte(spec.GetChaincodeId().GetName())
	for _, arg := range spec.GetInput().GetArgs() {
		text = append(append(text, ' '), arg...)
	}
	response, err := proto.Marshal(&peerpb.Response{Status: shim.StatusOK, Payload: text})
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_COMPLETED, Payload: response})
}
