package shim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/shim"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	getState   = peerpb.ChaincodeMessage_GET_STATE
	putState   = peerpb.ChaincodeMessage_PUT_STATE
	getMany    = peerpb.ChaincodeMessage_GET_STATE_MULTIPLE
	writeBatch = peerpb.ChaincodeMessage_WRITE_BATCH_STATE
	byRange    = peerpb.ChaincodeMessage_GET_STATE_BY_RANGE
	invoke     = peerpb.ChaincodeMessage_INVOKE_CHAINCODE
	completed  = peerpb.ChaincodeMessage_COMPLETED
)

// offers are the peers that there are.
func offers() map[string]*peerpb.ChaincodeAdditionalParams {
	fabric31 := &peerpb.ChaincodeAdditionalParams{UseWriteBatch: true, MaxSizeWriteBatch: 3, UseGetMultipleKeys: true, MaxSizeGetMultipleKeys: 3}
	ours := &peerpb.ChaincodeAdditionalParams{
		UseWriteBatch: true, MaxSizeWriteBatch: 3, UseGetMultipleKeys: true, MaxSizeGetMultipleKeys: 3, WritesWithCompleted: true,
	}
	return map[string]*peerpb.ChaincodeAdditionalParams{"before Fabric 3.1": nil, "Fabric 3.1": fabric31, "ours": ours}
}

func batching() shim.Functions {
	functions := probe()
	functions["puts"] = func(s *shim.Stub, keys []string) ([]byte, error) {
		for _, key := range keys {
			if err := s.PutState(key, []byte("of "+key)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	functions["gets"] = func(s *shim.Stub, keys []string) ([]byte, error) {
		values, err := s.GetMultipleStates(keys...)
		texts := make([]string, len(values))
		for i, value := range values {
			texts[i] = fmt.Sprintf("%s:%t", value, value == nil)
		}
		return []byte(strings.Join(texts, " ")), err
	}
	functions["put, then"] = func(s *shim.Stub, a []string) ([]byte, error) {
		err := s.PutState(a[1], []byte("before"))
		if a[0] == "call" {
			_, other := s.InvokeChaincode("other", nil, "")
			return nil, errors.Join(err, other)
		}
		_, other := collect(s.GetStateByRange("", ""))
		return nil, errors.Join(err, other)
	}
	return functions
}

// The messages that a transaction sends depend on what the peer offers; what it does, does not.
func TestReadsAndWritesGoInBatchesWhereThePeerOffersThem(t *testing.T) {
	type kinds = []peerpb.ChaincodeMessage_Type
	cases := map[string]struct {
		args []string
		want map[string]kinds
		says string
	}{
		"one write": {
			args: []string{"put", "k", "v"},
			want: map[string]kinds{"before Fabric 3.1": {putState, completed}, "Fabric 3.1": {writeBatch, completed}, "ours": {completed}},
		},
		"more writes than fit a batch": {
			args: []string{"puts", "a", "b", "c", "d"},
			want: map[string]kinds{
				"before Fabric 3.1": {putState, putState, putState, putState, completed},
				"Fabric 3.1":        {writeBatch, writeBatch, completed}, "ours": {writeBatch, completed},
			},
		},
		"a deletion": {
			args: []string{"del", "there"},
			want: map[string]kinds{
				"before Fabric 3.1": {peerpb.ChaincodeMessage_DEL_STATE, completed}, "Fabric 3.1": {writeBatch, completed}, "ours": {completed},
			},
		},
		"more reads than fit a question": {
			args: []string{"gets", "there", "missing", "there", "there"}, says: "x:false :true x:false x:false",
			want: map[string]kinds{
				"before Fabric 3.1": {getState, getState, getState, getState, completed},
				"Fabric 3.1":        {getMany, getState, completed}, "ours": {getMany, getState, completed},
			},
		},
		"a write before another chaincode's": {
			args: []string{"put, then", "call", "k"},
			want: map[string]kinds{
				"before Fabric 3.1": {putState, invoke, completed}, "Fabric 3.1": {writeBatch, invoke, completed}, "ours": {writeBatch, invoke, completed},
			},
		},
		"a write before a query": {
			args: []string{"put, then", "range", "k"},
			want: map[string]kinds{
				"before Fabric 3.1": {putState, byRange, completed}, "Fabric 3.1": {writeBatch, byRange, completed}, "ours": {writeBatch, byRange, completed},
			},
		},
	}
	for name, c := range cases {
		var states []map[string][]byte
		for kind, offer := range offers() {
			t.Run(name+", "+kind, func(t *testing.T) {
				p := shimtest.StartOffering(t, batching(), offer)
				p.OK("put", "there", "x")
				p.Calls = nil
				assert.Equal(t, c.says, p.OK(c.args...))
				assert.Equal(t, c.want[kind], p.Calls)
				states = append(states, p.State())
			})
		}
		for _, state := range states {
			assert.Equal(t, states[0], state, name)
		}
	}
}

func TestWritesOfAFailedTransactionDoNotCount(t *testing.T) {
	functions := shim.Functions{"put, fail": func(s *shim.Stub, _ []string) ([]byte, error) {
		return nil, errors.Join(s.PutState("k", []byte("v")), errors.New("no"))
	}}
	for kind, offer := range offers() {
		p := shimtest.StartOffering(t, functions, offer)
		assert.NotEqual(t, int32(shim.StatusOK), p.Invoke("put, fail").GetStatus(), kind)
		assert.Empty(t, p.State(), kind)
	}
}

// A contract that does not look at errors has been told of the first writes that all is well.
func TestRefusedWritesCannotBeOverlooked(t *testing.T) {
	functions := shim.Functions{"overlook": func(s *shim.Stub, keys []string) ([]byte, error) {
		for _, key := range keys {
			_ = s.PutState(key, []byte("v"))
		}
		return nil, nil
	}}
	for kind, offer := range offers() {
		if offer == nil {
			continue // such a peer answers each write
		}
		p := shimtest.StartOffering(t, functions, offer)
		p.Refuse = "b"
		_, result := p.Begin(nil, "overlook", "a", "b", "c", "d")
		msg := <-result
		assert.Equal(t, peerpb.ChaincodeMessage_ERROR, msg.GetType(), kind)
		assert.Contains(t, string(msg.GetPayload()), "b must not be written", kind)
		assert.Empty(t, msg.GetWrites().GetRec(), kind)
	}
}

// A name that no message can carry is the contract's error: the stream is every transaction's.
func TestWhatNoMessageCanCarryEndsItsTransactionAlone(t *testing.T) {
	release := make(chan struct{})
	functions := batching()
	functions["wait"] = func(s *shim.Stub, _ []string) ([]byte, error) {
		<-release
		return nil, s.PutState("waited", []byte("v"))
	}
	for kind, offer := range offers() {
		p := shimtest.StartOffering(t, functions, offer)
		_, beside := p.Begin(nil, "wait")
		for _, args := range [][]string{{"put", "\xff", "v"}, {"del", "\xff"}, {"event", "\xff", "v"}} {
			response := p.Invoke(args...)
			assert.Equal(t, int32(shim.StatusError), response.GetStatus(), "%s: %q", kind, args)
			assert.Contains(t, response.GetMessage(), `"\xff"`, kind)
		}
		release <- struct{}{}
		assert.Equal(t, completed, (<-beside).GetType(), kind)
	}
}
