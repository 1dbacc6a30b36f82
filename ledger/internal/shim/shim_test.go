package shim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/shim"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// probe is a contract with one function for each thing that the shim can do.
func probe() shim.Functions {
	return shim.Functions{
		"put":  func(s *shim.Stub, a []string) ([]byte, error) { return nil, s.PutState(a[0], []byte(a[1])) },
		"get":  func(s *shim.Stub, a []string) ([]byte, error) { return s.GetState(a[0]) },
		"del":  func(s *shim.Stub, a []string) ([]byte, error) { return nil, s.DelState(a[0]) },
		"fail": func(_ *shim.Stub, a []string) ([]byte, error) { return nil, errors.New(a[0]) },
		"boom": func(_ *shim.Stub, a []string) ([]byte, error) { return []byte(a[7]), nil },
		"stale": func(s *shim.Stub, a []string) ([]byte, error) {
			if err := s.PutState(a[0], []byte("new")); err != nil {
				return nil, err
			}
			return s.GetState(a[0])
		},
		"range": func(s *shim.Stub, a []string) ([]byte, error) {
			return collect(s.GetStateByRange(a[0], a[1]))
		},
		"first": func(s *shim.Stub, _ []string) ([]byte, error) {
			it, err := s.GetStateByRange("", "")
			if err != nil {
				return nil, err
			}
			kv, err := it.Next()
			return []byte(kv.GetKey()), errors.Join(err, it.Close())
		},
		"page": func(s *shim.Stub, a []string) ([]byte, error) {
			it, page, err := s.GetStateByRangeWithPagination(a[0], a[1], 3, a[2])
			keys, err := collect(it, err)
			return fmt.Appendf(keys, "|%d|%s", page.Fetched, page.Bookmark), err
		},
		"own": func(s *shim.Stub, a []string) ([]byte, error) {
			key, err := shim.CreateCompositeKey("owner~id", a)
			if err != nil {
				return nil, err
			}
			return nil, s.PutState(key, []byte{1})
		},
		"owned": func(s *shim.Stub, a []string) ([]byte, error) {
			return collect(s.GetStateByPartialCompositeKey("owner~id", a))
		},
		"event": func(s *shim.Stub, a []string) ([]byte, error) { return nil, s.SetEvent(a[0], []byte(a[1])) },
		"call": func(s *shim.Stub, a []string) ([]byte, error) {
			response, err := s.InvokeChaincode(a[0], [][]byte{[]byte(a[1])}, "")
			return response.GetPayload(), err
		},
		"client": func(s *shim.Stub, _ []string) ([]byte, error) {
			creator, err1 := s.GetCreator()
			transient, err2 := s.GetTransient()
			at, err3 := s.GetTxTimestamp()
			text, err4 := json.Marshal([]string{string(creator), string(transient["secret"]), at.Format(time.RFC3339)})
			return text, errors.Join(err1, err2, err3, err4)
		},
	}
}

func collect(it *shim.Iterator, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var keys []string
	for it.HasNext() {
		kv, err := it.Next()
		if err != nil {
			return nil, err
		}
		keys = append(keys, kv.GetKey())
	}
	return []byte(strings.Join(keys, ",")), it.Close()
}

func TestRegistersUnderItsID(t *testing.T) {
	assert.Equal(t, "test:1.0", shimtest.Start(t, probe()).ID)
}

func TestStateIsReadAndWritten(t *testing.T) {
	p := shimtest.Start(t, probe())
	assert.Empty(t, p.OK("get", "a"))
	p.OK("put", "a", "1")
	assert.Equal(t, "1", p.OK("get", "a"))
	p.OK("del", "a")
	assert.Empty(t, p.State())
}

func TestReadsSeeOnlyCommittedState(t *testing.T) {
	p := shimtest.Start(t, probe())
	p.OK("put", "a", "old")
	assert.Equal(t, "old", p.OK("stale", "a"))
	assert.Equal(t, "new", p.OK("get", "a"))
}

func TestWhatAContractRefusesIsAResponse(t *testing.T) {
	p := shimtest.Start(t, probe())
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"fail", "no funds"}, "no funds"},
		{[]string{"unheard of"}, `unknown function "unheard of"`},
		{[]string{"boom"}, "the contract panicked"},
		{[]string{"put", "", "x"}, "must not be empty"},
		{[]string{"range", "\x00a", ""}, "cannot start or end with U+0000"},
		{[]string{"fail", "\xff"}, ""},
	} {
		if c.want == "" { // not UTF-8: no response can carry it, the peer gets an ERROR
			_, result := p.Begin(nil, c.args...)
			assert.Equal(t, peerpb.ChaincodeMessage_ERROR, (<-result).GetType())
			continue
		}
		response := p.Invoke(c.args...)
		assert.Equal(t, int32(shim.StatusError), response.GetStatus(), c.args)
		assert.Contains(t, response.GetMessage(), c.want)
	}
	p.OK("put", "still", "alive")
}

func TestRangesFetchAllBatchesAndCloseWhatTheyLeave(t *testing.T) {
	p := shimtest.Start(t, probe())
	for i := range 7 {
		p.OK("put", "k"+strconv.Itoa(i), "v")
	}
	p.OK("own", "tom", "1")
	assert.Equal(t, "k0,k1,k2,k3,k4,k5,k6", p.OK("range", "", ""), "composite keys are not simple keys")
	assert.Equal(t, "k2,k3,k4", p.OK("range", "k2", "k5"))
	assert.Empty(t, p.OK("range", "x", "y"))
	assert.Equal(t, "k0", p.OK("first"))
	assert.Zero(t, p.OpenQueries())
	assert.Contains(t, p.Calls, peerpb.ChaincodeMessage_QUERY_STATE_NEXT)
	assert.Contains(t, p.Calls, peerpb.ChaincodeMessage_QUERY_STATE_CLOSE)
}

func TestPagesContinueAtTheirBookmark(t *testing.T) {
	p := shimtest.Start(t, probe())
	for i := range 5 {
		p.OK("put", "k"+strconv.Itoa(i), "v")
	}
	assert.Equal(t, "k0,k1,k2|3|k3", p.OK("page", "", "", ""))
	assert.Equal(t, "k3,k4|2|", p.OK("page", "", "", "k3"))
}

func TestCompositeKeysAreFabrics(t *testing.T) {
	key, err := shim.CreateCompositeKey("color~name", []string{"blue", "marble1"})
	require.NoError(t, err)
	assert.Equal(t, "\x00color~name\x00blue\x00marble1\x00", key)
	kind, attributes, err := shim.SplitCompositeKey(key)
	require.NoError(t, err)
	assert.Equal(t, "color~name", kind)
	assert.Equal(t, []string{"blue", "marble1"}, attributes)
	for _, bad := range []string{"a\x00b", "\U0010ffff", "\xff"} {
		_, err := shim.CreateCompositeKey("t", []string{bad})
		assert.ErrorIs(t, err, shim.ErrKey)
	}
	for _, bad := range []string{"", "\x00", "plain", "\x00open"} {
		_, _, err := shim.SplitCompositeKey(bad)
		assert.ErrorIs(t, err, shim.ErrKey)
	}
}

func TestPartialCompositeKeysFindTheirOwnAlone(t *testing.T) {
	p := shimtest.Start(t, probe())
	p.OK("own", "tom", "1")
	p.OK("own", "tom", "2")
	p.OK("own", "tomas", "3")
	assert.Equal(t, "\x00owner~id\x00tom\x001\x00,\x00owner~id\x00tom\x002\x00", p.OK("owned", "tom"))
}

func TestEventAndChaincodeToChaincode(t *testing.T) {
	p := shimtest.Start(t, probe())
	_, event := p.InvokeSigned(nil, "event", "paid", "12")
	assert.Equal(t, "paid", event.GetEventName())
	assert.Equal(t, "12", string(event.GetPayload()))
	assert.Equal(t, "other hello", p.OK("call", "other", "hello"))
}

func TestTheClientIsReadFromTheProposal(t *testing.T) {
	p := shimtest.Start(t, probe())
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	must := func(m proto.Message) []byte {
		out, err := proto.Marshal(m)
		require.NoError(t, err)
		return out
	}
	proposal := &peerpb.SignedProposal{ProposalBytes: must(&peerpb.Proposal{
		Header: must(&commonpb.Header{
			ChannelHeader:   must(&commonpb.ChannelHeader{Timestamp: timestamppb.New(at)}),
			SignatureHeader: must(&commonpb.SignatureHeader{Creator: []byte("me")}),
		}),
		Payload: must(&peerpb.ChaincodeProposalPayload{TransientMap: map[string][]byte{"secret": []byte("xyz")}}),
	})}
	response, _ := p.InvokeSigned(proposal, "client")
	assert.JSONEq(t, `["me","xyz","2026-11-21T03:00:00Z"]`, string(response.GetPayload()))
	assert.Contains(t, p.Invoke("client").GetMessage(), "no proposal")
}

func TestTransactionsRunAtOnce(t *testing.T) {
	var meet sync.WaitGroup
	const n = 50
	meet.Add(n)
	p := shimtest.Start(t, shim.Functions{"meet": func(s *shim.Stub, a []string) ([]byte, error) {
		meet.Done()
		meet.Wait() // returns only when all transactions are inside at once
		return nil, s.PutState(a[0], []byte(s.GetTxID()))
	}})
	results := make([]<-chan *peerpb.ChaincodeMessage, n)
	for i := range n {
		_, results[i] = p.Begin(nil, "meet", strconv.Itoa(i))
	}
	for _, result := range results {
		assert.Equal(t, peerpb.ChaincodeMessage_COMPLETED, (<-result).GetType())
	}
}

func TestTheStreamSurvivesWhatAPeerShouldNotSend(t *testing.T) {
	release := make(chan struct{})
	p := shimtest.Start(t, shim.Functions{"wait": func(*shim.Stub, []string) ([]byte, error) {
		<-release
		return nil, nil
	}})
	tx, result := p.Begin(nil, "wait")
	p.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_TRANSACTION, Txid: tx, ChannelId: "mychannel"})
	again := <-result
	assert.Equal(t, peerpb.ChaincodeMessage_ERROR, again.GetType())
	assert.Contains(t, string(again.GetPayload()), "already running")

	p.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_RESPONSE, Txid: "nobody", ChannelId: "mychannel"})
	for range 3 {
		p.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_RESPONSE, Txid: tx, ChannelId: "mychannel"})
	}
	p.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_KEEPALIVE})
	_, malformed := p.Begin(nil)
	assert.Contains(t, response(t, <-malformed).GetMessage(), "unknown function")
	close(release)
	assert.Equal(t, peerpb.ChaincodeMessage_COMPLETED, (<-result).GetType())
	assert.True(t, slices.Contains(p.Calls, peerpb.ChaincodeMessage_KEEPALIVE))
}

func response(t *testing.T, msg *peerpb.ChaincodeMessage) *peerpb.Response {
	t.Helper()
	out := &peerpb.Response{}
	require.NoError(t, proto.Unmarshal(msg.GetPayload(), out))
	return out
}
