package cchost_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/queryresultpb"
)

type stream = grpc.BidiStreamingServer[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]

// longest ends a test that has failed. No host is so slow that what must come takes as long.
const longest = 2 * time.Minute

// script is a chaincode that speaks the protocol message by message.
type script struct {
	peerpb.UnimplementedChaincodeServer
	play func(stream) error
}

func (s script) Connect(st stream) error { return s.play(st) }

func playing(t *testing.T, play func(stream) error) *fixture {
	t.Helper()
	return playingWithin(t, 0, play)
}

// playingWithin bounds messages, 0: as they are by default.
func playingWithin(t *testing.T, messageBytes int, play func(stream) error) *fixture {
	t.Helper()
	address, _ := servingtest.Serve(t, func(s *grpc.Server) { peerpb.RegisterChaincodeServer(s, script{play: play}) })
	return start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "cc", Address: address}}, MaxMessageBytes: messageBytes})
}

func message(kind peerpb.ChaincodeMessage_Type, payload proto.Message) *peerpb.ChaincodeMessage {
	raw, _ := proto.Marshal(payload)
	return &peerpb.ChaincodeMessage{Type: kind, Payload: raw}
}

func batch(writes ...*peerpb.WriteRecord) *peerpb.ChaincodeMessage {
	return message(peerpb.ChaincodeMessage_WRITE_BATCH_STATE, &peerpb.WriteBatchState{Rec: writes})
}

// register goes through the handshake as Fabric's shims do. The host dials again and again until its test ends: a stream that
// is cancelled with it is no failure.
func register(t *testing.T, st stream) {
	succeeded := func(err error) bool { return st.Context().Err() == nil && assert.NoError(t, err) }
	if !succeeded(st.Send(message(peerpb.ChaincodeMessage_REGISTER, &peerpb.ChaincodeID{Name: "cc:1.0"}))) {
		return
	}
	for _, want := range []peerpb.ChaincodeMessage_Type{peerpb.ChaincodeMessage_REGISTERED, peerpb.ChaincodeMessage_READY} {
		if msg, err := st.Recv(); succeeded(err) {
			assert.Equal(t, want, msg.GetType())
		}
	}
}

func TestWhatIsNotOfferedIsRefusedByName(t *testing.T) {
	questions := map[string]*peerpb.ChaincodeMessage{
		"private data":                          message(peerpb.ChaincodeMessage_GET_STATE, &peerpb.GetState{Key: "k", Collection: "c"}),
		"private data ":                         message(peerpb.ChaincodeMessage_PUT_STATE, &peerpb.PutState{Key: "k", Collection: "c"}),
		"private data  ":                        message(peerpb.ChaincodeMessage_GET_PRIVATE_DATA_HASH, &peerpb.GetState{}),
		"rich queries":                          {Type: peerpb.ChaincodeMessage_GET_QUERY_RESULT},
		"history":                               {Type: peerpb.ChaincodeMessage_GET_HISTORY_FOR_KEY},
		"key-level endorsement":                 {Type: peerpb.ChaincodeMessage_PUT_STATE_METADATA},
		"private data   ":                       message(peerpb.ChaincodeMessage_GET_STATE_MULTIPLE, &peerpb.GetStateMultiple{Keys: []string{"k"}, Collection: "c"}),
		"private data    ":                      batch(&peerpb.WriteRecord{Type: peerpb.WriteRecord_PUT_STATE, Key: "k", Collection: "c"}),
		"private data     ":                     batch(&peerpb.WriteRecord{Type: peerpb.WriteRecord_PURGE_PRIVATE_DATA, Key: "k"}),
		"key-level endorsement ":                batch(&peerpb.WriteRecord{Type: peerpb.WriteRecord_PUT_STATE_METADATA, Key: "k"}),
		"a write of type UNDEFINED":             batch(&peerpb.WriteRecord{Key: "k"}),
		"1001 writes in one batch":              batch(make([]*peerpb.WriteRecord, 1001)...),
		"1001 keys in one question":             message(peerpb.ChaincodeMessage_GET_STATE_MULTIPLE, &peerpb.GetStateMultiple{Keys: make([]string, 1001)}),
		"in one answer: ask for fewer keys":     message(peerpb.ChaincodeMessage_GET_STATE_MULTIPLE, &peerpb.GetStateMultiple{Keys: slices.Repeat([]string{"large"}, 100)}),
		"not a WriteBatchState":                 {Type: peerpb.ChaincodeMessage_WRITE_BATCH_STATE, Payload: []byte{0xff}},
		"not a GetStateMultiple":                {Type: peerpb.ChaincodeMessage_GET_STATE_MULTIPLE, Payload: []byte{0xff}},
		"not a GetState":                        {Type: peerpb.ChaincodeMessage_GET_STATE, Payload: []byte{0xff}},
		"query iterator not found":              message(peerpb.ChaincodeMessage_QUERY_STATE_NEXT, &peerpb.QueryStateNext{Id: "9"}),
		"an empty key cannot be written":        message(peerpb.ChaincodeMessage_PUT_STATE, &peerpb.PutState{}),
		"no such chaincode at this peer":        message(peerpb.ChaincodeMessage_INVOKE_CHAINCODE, &peerpb.ChaincodeSpec{ChaincodeId: &peerpb.ChaincodeID{Name: "x"}}),
		"only chaincodes on the transaction's ": message(peerpb.ChaincodeMessage_INVOKE_CHAINCODE, &peerpb.ChaincodeSpec{ChaincodeId: &peerpb.ChaincodeID{Name: "x/y"}}),
	}
	f := playing(t, func(st stream) error {
		register(t, st)
		tx, err := st.Recv()
		if err != nil {
			return err
		}
		for want, question := range questions {
			question.Txid, question.ChannelId = tx.GetTxid(), tx.GetChannelId()
			assert.NoError(t, st.Send(question))
			reply, err := st.Recv()
			if assert.NoError(t, err) {
				assert.Equal(t, peerpb.ChaincodeMessage_ERROR, reply.GetType(), want)
				assert.Contains(t, string(reply.GetPayload()), trimmed(want))
			}
		}
		assert.NoError(t, st.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_GET_STATE, Txid: "of nobody"}))
		reply, err := st.Recv()
		if assert.NoError(t, err) {
			assert.Contains(t, string(reply.GetPayload()), "no such transaction")
		}
		assert.NoError(t, st.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_KEEPALIVE}))
		return st.Send(&peerpb.ChaincodeMessage{
			Type: peerpb.ChaincodeMessage_ERROR, Payload: []byte("so be it"), Txid: tx.GetTxid(), ChannelId: tx.GetChannelId(),
		})
	}).await("cc")
	f.db.Apply(statedb.Version{Block: 1}, []statedb.Write{{Namespace: "cc", Key: "large", Value: make([]byte, 1<<20)}})
	_, _, _, err := f.simulate(context.Background(), "tx", "cc", "go")
	require.ErrorIs(t, err, cchost.ErrFailed)
	require.ErrorContains(t, err, "transaction returned with failure: so be it")
}

func trimmed(text string) string {
	for text[len(text)-1] == ' ' {
		text = text[:len(text)-1]
	}
	return text
}

// Whatever comes with the last message is held to the same rules as what came before it.
func TestWritesThatComeWithTheEnd(t *testing.T) {
	put := func(key string) *peerpb.WriteRecord {
		return &peerpb.WriteRecord{Type: peerpb.WriteRecord_PUT_STATE, Key: key, Value: []byte("v")}
	}
	for name, c := range map[string]struct {
		writes *peerpb.WriteBatchState
		fails  string
	}{
		"writes":  {writes: &peerpb.WriteBatchState{Rec: []*peerpb.WriteRecord{put("a"), {Type: peerpb.WriteRecord_DEL_STATE, Key: "b"}}}},
		"refused": {writes: &peerpb.WriteBatchState{Rec: []*peerpb.WriteRecord{put("a"), put("")}}, fails: "an empty key cannot be written"},
		"none":    {},
	} {
		t.Run(name, func(t *testing.T) {
			f := playing(t, func(st stream) error {
				register(t, st)
				tx, err := st.Recv()
				if err != nil {
					return err
				}
				end := message(peerpb.ChaincodeMessage_COMPLETED, &peerpb.Response{Status: 200})
				end.Txid, end.ChannelId, end.Writes = tx.GetTxid(), tx.GetChannelId(), c.writes
				assert.NoError(t, st.Send(end))
				<-st.Context().Done()
				return nil
			}).await("cc")
			_, _, set, err := f.simulate(context.Background(), "tx", "cc", "go")
			if c.fails != "" {
				require.ErrorIs(t, err, cchost.ErrFailed)
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Len(t, set.Writes, len(c.writes.GetRec()))
		})
	}
}

// ask sends a question of a transaction and gives the answer.
func ask(t *testing.T, st stream, tx, question *peerpb.ChaincodeMessage) *peerpb.ChaincodeMessage {
	question.Txid, question.ChannelId = tx.GetTxid(), tx.GetChannelId()
	assert.NoError(t, st.Send(question))
	reply, err := st.Recv()
	assert.NoError(t, err)
	return reply
}

// scanned is what a chaincode gets that reads the range from "a" on to its end: the keys, the results in each answer, and
// their largest size.
type scanned struct {
	keys    string
	results []int
	largest int
}

// scan plays a chaincode that reads the state, which these writes have made.
func scan(t *testing.T, writes []statedb.Write) scanned {
	t.Helper()
	var got scanned
	f := playing(t, func(st stream) error {
		register(t, st)
		tx, err := st.Recv()
		if err != nil {
			return err
		}
		question := message(peerpb.ChaincodeMessage_GET_STATE_BY_RANGE, &peerpb.GetStateByRange{StartKey: "a"})
		for {
			reply, part := ask(t, st, tx, question), &peerpb.QueryResponse{}
			assert.NoError(t, proto.Unmarshal(reply.GetPayload(), part))
			got.largest = max(got.largest, len(reply.GetPayload()))
			got.results = append(got.results, len(part.GetResults()))
			for _, result := range part.GetResults() {
				kv := &queryresultpb.KV{}
				assert.NoError(t, proto.Unmarshal(result.GetResultBytes(), kv))
				assert.Equal(t, "cc", kv.GetNamespace())
				assert.Len(t, kv.GetValue(), len(writes[len(got.keys)].Value), kv.GetKey())
				got.keys += kv.GetKey()[:1]
			}
			if !part.GetHasMore() {
				return st.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_ERROR, Payload: []byte("read"), Txid: tx.GetTxid(), ChannelId: tx.GetChannelId()})
			}
			question = message(peerpb.ChaincodeMessage_QUERY_STATE_NEXT, &peerpb.QueryStateNext{Id: part.GetId()})
		}
	}).await("cc")
	f.db.Apply(statedb.Version{Block: 1}, writes)
	_, _, _, err := f.simulate(context.Background(), "tx", "cc", "go")
	require.ErrorContains(t, err, "read")
	return got
}

// TestARangesAnswersAreBoundedInBytes: with 100 results each they would be as large as 100 values.
func TestARangesAnswersAreBoundedInBytes(t *testing.T) {
	const large, answers = 1 << 19, 5 << 19
	var writes []statedb.Write
	for _, c := range "abcdefgh" {
		writes = append(writes, statedb.Write{Namespace: "cc", Key: string(c), Value: make([]byte, large)})
	}
	writes = append(writes, statedb.Write{Namespace: "cc", Key: "i", Value: make([]byte, answers-large/2)}, statedb.Write{Namespace: "cc", Key: "j"})
	got := scan(t, writes)
	assert.Equal(t, "abcdefghij", got.keys)
	assert.Equal(t, []int{3, 3, 2, 1, 1}, got.results)
	assert.LessOrEqual(t, got.largest, answers)
}

// TestALongRangesAnswersGrow: each answer wakes two processes. A contract that stops early has at most twice as many
// results recorded as it has asked for.
func TestALongRangesAnswersGrow(t *testing.T) {
	var writes []statedb.Write
	for i := range 3000 {
		writes = append(writes, statedb.Write{Namespace: "cc", Key: fmt.Sprintf("k%04d", i), Value: make([]byte, 1+i%300)})
	}
	assert.Equal(t, []int{100, 100, 200, 400, 800, 1000, 400}, scan(t, writes).results)
}

// TestWhatIsTooLargeForTheStreamLeavesIt: gRPC ends a stream that is given a message beyond its bound.
func TestWhatIsTooLargeForTheStreamLeavesIt(t *testing.T) {
	const bound = 2 << 20
	f := playingWithin(t, bound, func(st stream) error {
		register(t, st)
		for {
			tx, err := st.Recv()
			if err != nil {
				return err
			}
			reply := ask(t, st, tx, message(peerpb.ChaincodeMessage_GET_STATE, &peerpb.GetState{Key: "large"}))
			assert.Equal(t, peerpb.ChaincodeMessage_ERROR, reply.GetType())
			assert.NoError(t, st.Send(&peerpb.ChaincodeMessage{
				Type: peerpb.ChaincodeMessage_ERROR, Payload: reply.GetPayload(), Txid: tx.GetTxid(), ChannelId: tx.GetChannelId(),
			}))
		}
	}).await("cc")
	f.db.Apply(statedb.Version{Block: 1}, []statedb.Write{{Namespace: "cc", Key: "large", Value: make([]byte, bound)}})
	for range 2 {
		_, _, _, err := f.simulate(context.Background(), "tx", "cc", "go")
		require.ErrorIs(t, err, cchost.ErrFailed)
		require.ErrorContains(t, err, "a message of 2097174 bytes is too large for the chaincode's stream: at most 2097152 are accepted")
		_, _, _, err = f.simulate(context.Background(), "tx", "cc", strings.Repeat("x", bound))
		require.ErrorContains(t, err, "too large for the chaincode's stream")
		// Every byte counts: those of fields that nobody knows are neither of the proposal nor of its signature.
		padded := &peerpb.SignedProposal{}
		padded.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), make([]byte, bound)))
		_, _, err = f.host.Execute(context.Background(), cchost.Invocation{
			ChannelID: "mychannel", TxID: "tx", Chaincode: "cc", SignedProposal: padded,
		}, ledger{rwset.NewSimulator(f.db.Snapshot())})
		require.ErrorContains(t, err, "too large for the chaincode's stream")
		require.True(t, f.host.Connected("cc"))
	}
}

func TestAStrangerIsNotTaken(t *testing.T) {
	for name, first := range map[string]*peerpb.ChaincodeMessage{
		"another chaincode": message(peerpb.ChaincodeMessage_REGISTER, &peerpb.ChaincodeID{Name: "cc2:1.0"}),
		"not a REGISTER":    {Type: peerpb.ChaincodeMessage_READY},
		"not an id":         {Type: peerpb.ChaincodeMessage_REGISTER, Payload: []byte{0xff}},
	} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan struct{}, 16)
			f := playing(t, func(st stream) error {
				if err := st.Send(first); err != nil {
					return err // the host has ended: it dials again and again
				}
				_, err := st.Recv()
				assert.Error(t, err, "the peer answers nothing and hangs up")
				select {
				case refused <- struct{}{}:
				default:
				}
				return err
			})
			for range 2 { // and the peer tries again: the right one may come
				select {
				case <-refused:
				case <-time.After(longest):
					t.Fatal("the peer did not hang up")
				}
			}
			assert.False(t, f.host.Connected("cc"))
		})
	}
}

func TestAResponseThatIsNotOneFails(t *testing.T) {
	again := make(chan error, 2)
	f := playing(t, func(st stream) error {
		register(t, st)
		for {
			tx, err := st.Recv()
			if err != nil {
				return err
			}
			done := &peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_COMPLETED, Payload: []byte{0xff}, Txid: tx.GetTxid(), ChannelId: tx.GetChannelId()}
			assert.NoError(t, st.Send(done))
			again <- st.Send(done)
		}
	}).await("cc")
	for _, id := range []string{"tx1", "tx2"} {
		_, _, _, err := f.simulate(context.Background(), id, "cc", "go")
		require.ErrorIs(t, err, cchost.ErrFailed)
		// The first answer ends the call. The chaincode's second one must be sent before the test goes on, or ends.
		assert.NoError(t, <-again, "said twice: the second is nobody's")
	}
}

// TestTheLimitOfTimeIsOfTheWaitForTheStreamToo: one transaction's message fills a stream that is not read, the next one
// blocks in it, and all others wait behind that.
func TestTheLimitOfTimeIsOfTheWaitForTheStreamToo(t *testing.T) {
	address, _ := servingtest.Serve(t, func(s *grpc.Server) {
		peerpb.RegisterChaincodeServer(s, script{play: func(st stream) error {
			register(t, st)
			<-st.Context().Done()
			return nil
		}})
	})
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "cc", Address: address}}, ExecuteTimeout: 100 * time.Millisecond}).await("cc")
	const all = 5
	large, ended := strings.Repeat("x", 16<<20), make(chan error, all)
	for i := range all {
		go func() {
			_, _, _, err := f.simulate(context.Background(), strconv.Itoa(i), "cc", large)
			ended <- err
		}()
	}
	for range all - 1 {
		require.ErrorIs(t, <-ended, cchost.ErrTimeout)
	}
}
