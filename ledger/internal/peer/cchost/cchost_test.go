package cchost_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/contracts/kv"
	"github.com/qioi/qioi/ledger/internal/contracts/smallbank"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/internal/shim"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// ledger is the peer's own simulator.
type ledger struct{ *rwset.Simulator }

func (l ledger) GetState(ns, key string) ([]byte, error)     { return l.Get(ns, key) }
func (l ledger) PutState(ns, key string, value []byte) error { return l.Put(ns, key, value) }
func (l ledger) DelState(ns, key string) error               { return l.Delete(ns, key) }
func (l ledger) Range(ns, start, end string) (cchost.Iterator, error) {
	return l.Simulator.Range(ns, start, end), nil
}

// fixture is a host with real chaincode servers behind it.
type fixture struct {
	t    *testing.T
	host *cchost.Host
	db   *statedb.DB

	mu     sync.Mutex
	height uint64
}

// own is an address that stays this test's while nobody serves at it.
func own(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(porttest.Take(t)))
}

// serve runs a chaincode server until stop is called or the test ends.
func serve(t *testing.T, id, address string, contract shim.Contract) (at string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, shim.NewServer(id, contract, nil).Serve(ctx, listener))
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// start runs a host for chaincodes by name and address.
func start(t *testing.T, config cchost.Config) *fixture {
	t.Helper()
	host, err := cchost.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, host.Run(ctx))
	}()
	t.Cleanup(func() { cancel(); <-done })
	return &fixture{t: t, host: host, db: statedb.New()}
}

func (f *fixture) await(names ...string) *fixture {
	f.t.Helper()
	for _, name := range names {
		require.Eventually(f.t, func() bool { return f.host.Connected(name) }, longest, time.Millisecond)
	}
	return f
}

func input(args []string) *peerpb.ChaincodeInput {
	in := &peerpb.ChaincodeInput{}
	for _, arg := range args {
		in.Args = append(in.Args, []byte(arg))
	}
	return in
}

// simulate runs a transaction and returns what it read and wrote as well. It may be called from any goroutine.
func (f *fixture) simulate(ctx context.Context, tx, chaincode string, args ...string) (*peerpb.Response, *peerpb.ChaincodeEvent, *rwset.Set, error) {
	sim := rwset.NewSimulator(f.db.Snapshot())
	response, event, err := f.host.Execute(ctx, cchost.Invocation{
		ChannelID: "mychannel", TxID: tx, Chaincode: chaincode, Input: input(args),
		Defined: func(name string) bool { return name != "undefined" },
	}, ledger{sim})
	if err != nil {
		return nil, nil, nil, err
	}
	raw, err := sim.Encode()
	if err != nil {
		return nil, nil, nil, err
	}
	set, err := rwset.Decode(raw)
	return response, event, set, err
}

// do runs a transaction and commits it when its status is 200.
func (f *fixture) do(chaincode string, args ...string) *peerpb.Response {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.height++
	response, _, set, err := f.simulate(context.Background(), "tx"+strconv.FormatUint(f.height, 10), chaincode, args...)
	require.NoError(f.t, err)
	if response.GetStatus() == shim.StatusOK {
		f.db.Apply(statedb.Version{Block: f.height}, set.Writes)
	}
	return response
}

func (f *fixture) ok(chaincode string, args ...string) string {
	f.t.Helper()
	response := f.do(chaincode, args...)
	require.Equal(f.t, int32(shim.StatusOK), response.GetStatus(), response.GetMessage())
	return string(response.GetPayload())
}

// probe is a contract for what the bundled ones do not do.
func probe(entered chan<- string, release <-chan struct{}) shim.Functions {
	return shim.Functions{
		"wait": func(s *shim.Stub, _ []string) ([]byte, error) {
			entered <- s.GetTxID()
			<-release
			return s.GetState("after")
		},
		"event": func(s *shim.Stub, a []string) ([]byte, error) { return nil, s.SetEvent(a[0], []byte(a[1])) },
		"put":   func(s *shim.Stub, a []string) ([]byte, error) { return nil, s.PutState(a[0], []byte(a[1])) },
		"page": func(s *shim.Stub, a []string) ([]byte, error) {
			size, err := strconv.Atoi(a[2])
			if err != nil {
				return nil, err
			}
			it, page, err := s.GetStateByRangeWithPagination(a[0], a[1], int32(size), a[3])
			if err != nil {
				return nil, err
			}
			n, last := 0, ""
			for it.HasNext() {
				entry, err := it.Next()
				if err != nil {
					return nil, err
				}
				n, last = n+1, entry.GetKey()
			}
			if len(a) > 4 {
				err = s.PutState(a[4], nil)
			}
			return fmt.Appendf(nil, "%d of %d to %s, then %q", n, page.Fetched, last, page.Bookmark), err
		},
		"call": func(s *shim.Stub, a []string) ([]byte, error) {
			if err := s.PutState("caller", []byte("was here")); err != nil {
				return nil, err
			}
			response, err := s.InvokeChaincode(a[0], input(a[2:]).GetArgs(), a[1])
			if err != nil {
				return nil, err
			}
			return fmt.Appendf(nil, "%d %s%s", response.GetStatus(), response.GetPayload(), response.GetMessage()), nil
		},
	}
}

func TestTheBundledContractsRun(t *testing.T) {
	bank, _ := serve(t, "smallbank:1.0", "127.0.0.1:0", smallbank.New())
	keys, _ := serve(t, "kv", "127.0.0.1:0", kv.New())
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "smallbank", Address: bank}, {Name: "kv", Address: keys}}}).await("smallbank", "kv")

	f.ok("smallbank", "create_account", "1", "Ann", "100", "50")
	f.ok("smallbank", "create_account", "2", "Bob", "0", "0")
	f.ok("smallbank", "send_payment", "30", "2", "1")
	assert.Contains(t, f.ok("smallbank", "query", "2"), "30")
	refused := f.do("smallbank", "send_payment", "1000000", "2", "1")
	assert.Equal(t, int32(shim.StatusError), refused.GetStatus())
	assert.NotEmpty(t, refused.GetMessage())

	f.ok("kv", "put", "k", "v")
	assert.Equal(t, "v", f.ok("kv", "get", "k"))
	assert.Empty(t, f.ok("kv", "get", "1"), "namespaces are kept apart")
	f.ok("kv", "delete", "k")
	assert.Empty(t, f.ok("kv", "get", "k"))
}

func TestRangesAreReadInBatchesAndRecorded(t *testing.T) {
	keys, _ := serve(t, "kv", "127.0.0.1:0", kv.New())
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "kv", Address: keys}}}).await("kv")
	var writes []statedb.Write
	for i := range 250 {
		writes = append(writes, statedb.Write{Namespace: "kv", Key: fmt.Sprintf("k%03d", i), Value: []byte("v")})
	}
	f.db.Apply(statedb.Version{Block: 1}, writes)

	response, _, set, err := f.simulate(context.Background(), "tx", "kv", "scan", "k", "l", "10000")
	require.NoError(t, err)
	assert.Contains(t, string(response.GetPayload()), `{"key":"k249","value":"v"}`)
	response, _, part, err := f.simulate(context.Background(), "tx", "kv", "scan", "k", "l", "150")
	require.NoError(t, err)
	assert.Contains(t, string(response.GetPayload()), `{"key":"k149","value":"v"}]`)

	assert.Equal(t, peerpb.TxValidationCode_VALID, set.Check(f.db))
	f.db.Apply(statedb.Version{Block: 2}, []statedb.Write{{Namespace: "kv", Key: "k2495"}})
	assert.Equal(t, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT, set.Check(f.db))
	assert.Equal(t, peerpb.TxValidationCode_VALID, part.Check(f.db), "a query that stops early has not seen the end")
}

func TestAnEventIsTheChaincodesOwn(t *testing.T) {
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(nil, nil))
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}}).await("probe")
	_, event, _, err := f.simulate(context.Background(), "tx1", "probe", "event", "paid", "7")
	require.NoError(t, err)
	want := &peerpb.ChaincodeEvent{ChaincodeId: "probe", TxId: "tx1", EventName: "paid", Payload: []byte("7")}
	assert.True(t, proto.Equal(want, event), "%v", event)
}

func TestChaincodesCallEachOther(t *testing.T) {
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(nil, nil))
	keys, _ := serve(t, "kv", "127.0.0.1:0", kv.New())
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}, {Name: "kv", Address: keys}}}).await("probe", "kv")

	response, _, set, err := f.simulate(context.Background(), "tx", "probe", "call", "kv", "mychannel", "put", "k", "v")
	require.NoError(t, err)
	assert.Equal(t, "200 ", string(response.GetPayload()))
	assert.Equal(t, []statedb.Write{
		{Namespace: "kv", Key: "k", Value: []byte("v")}, {Namespace: "probe", Key: "caller", Value: []byte("was here")},
	}, set.Writes, "one transaction, each chaincode in its own namespace")

	assert.Contains(t, f.ok("probe", "call", "kv", "", "put", "k"), "500 wrong arguments", "its response is the caller's to judge")
	for args, want := range map[[2]string]string{
		{"kv", "other"}:      "own channel mychannel can be called",
		{"nobody", ""}:       cchost.ErrUnknown.Error(),
		{"undefined", ""}:    "not defined on channel mychannel",
		{"probe", ""}:        cchost.ErrRunning.Error(),
		{"kv:2.0/other", ""}: "chaincode kv on channel other",
	} {
		refused := f.do("probe", "call", args[0], args[1], "put", "k", "v")
		assert.Equal(t, int32(shim.StatusError), refused.GetStatus())
		assert.Contains(t, refused.GetMessage(), want)
	}
}

func TestCallersLearnAtOnceThatTheirChaincodeDied(t *testing.T) {
	entered, release := make(chan string, 8), make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(release) }) }
	t.Cleanup(free)
	at, stop := serve(t, "probe", own(t), probe(entered, release))
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}}).await("probe")
	results := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, _, _, err := f.simulate(context.Background(), strconv.Itoa(i), "probe", "wait")
			results <- err
		}()
	}
	for range 3 {
		<-entered
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	for range 3 { // the contracts still wait: only the broken stream can have ended the calls
		require.ErrorIs(t, <-results, cchost.ErrTerminated)
	}
	require.Eventually(t, func() bool { return !f.host.Connected("probe") }, longest, time.Millisecond)
	_, _, _, err := f.simulate(context.Background(), "4", "probe", "put", "a", "b")
	require.ErrorIs(t, err, cchost.ErrNotConnected)
	require.ErrorContains(t, err, "failed to execute transaction 4: chaincode probe")

	free()
	<-stopped
	serve(t, "probe:2.0", at, probe(entered, release))
	f.await("probe")
	f.ok("probe", "put", "a", "b")
}

func TestTheFirstTransactionWaitsForAChaincodeThatStartsLater(t *testing.T) {
	address := own(t)
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: address}}})
	result := make(chan error)
	go func() {
		_, _, _, err := f.simulate(context.Background(), "1", "probe", "put", "a", "b")
		result <- err
	}()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, _, err := f.simulate(ctx, "2", "probe", "put", "a", "b")
	require.ErrorIs(t, err, context.Canceled, "it is not there yet")
	serve(t, "probe", address, probe(nil, nil))
	require.NoError(t, <-result)
}

func TestATransactionHasALimitOfTime(t *testing.T) {
	entered, release := make(chan string, 1), make(chan struct{})
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(entered, release))
	f := start(t, cchost.Config{
		Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}, ExecuteTimeout: 50 * time.Millisecond, MaxRunning: 1,
	}).await("probe")
	_, _, _, err := f.simulate(context.Background(), "1", "probe", "wait")
	require.ErrorIs(t, err, cchost.ErrTimeout)
	<-entered
	close(release)                      // the contract goes on, and asks for state of a ledger that is gone
	require.Eventually(t, func() bool { // the stream serves on; on a busy machine 50 ms may be short
		_, _, _, err := f.simulate(context.Background(), "2", "probe", "put", "a", "b")
		return err == nil
	}, longest, time.Millisecond)
}

func TestMoreThanTheLimitIsRefused(t *testing.T) {
	entered, release := make(chan string, 1), make(chan struct{})
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(entered, release))
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}, MaxRunning: 1}).await("probe")
	result := make(chan error)
	go func() {
		_, _, _, err := f.simulate(context.Background(), "1", "probe", "wait")
		result <- err
	}()
	<-entered
	_, _, _, err := f.simulate(context.Background(), "2", "probe", "put", "a", "b")
	require.ErrorIs(t, err, cchost.ErrBusy)
	_, _, _, err = f.simulate(context.Background(), "1", "probe", "put", "a", "b")
	require.ErrorIs(t, err, cchost.ErrRunning)
	close(release)
	require.NoError(t, <-result)
	_, _, _, err = f.simulate(context.Background(), "3", "probe", "put", "a", "b")
	require.NoError(t, err)
}

func TestManyTransactionsShareOneStream(t *testing.T) {
	keys, _ := serve(t, "kv", "127.0.0.1:0", kv.New())
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "kv", Address: keys}}}).await("kv")
	var writes []statedb.Write
	const clients, each = 32, 20
	for i := range clients {
		writes = append(writes, statedb.Write{Namespace: "kv", Key: "k" + strconv.Itoa(i), Value: []byte("v" + strconv.Itoa(i))})
	}
	f.db.Apply(statedb.Version{Block: 1}, writes)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range each {
				id := fmt.Sprintf("tx%d-%d", i, j)
				response, _, set, err := f.simulate(context.Background(), id, "kv", "update", "k"+strconv.Itoa(i), id)
				if assert.NoError(t, err) {
					assert.Equal(t, "v"+strconv.Itoa(i), string(response.GetPayload()))
					assert.Equal(t, []statedb.Write{{Namespace: "kv", Key: "k" + strconv.Itoa(i), Value: []byte(id)}}, set.Writes)
				}
			}
		})
	}
	wg.Wait()
}

func TestConfigIsChecked(t *testing.T) {
	for want, chaincodes := range map[string][]cchost.Chaincode{
		"host:port is accepted":  {{Name: "a", Address: "nowhere"}},
		"given once is accepted": {{Name: "a", Address: "h:1"}, {Name: "a", Address: "h:2"}},
		`chaincode name ""`:      {{Address: "h:1"}},
	} {
		_, err := cchost.New(cchost.Config{Chaincodes: chaincodes})
		require.ErrorContains(t, err, want)
	}
}
