package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

func TestWhichErrorsOfSubmitLeaveATransactionOpen(t *testing.T) {
	said := func(code codes.Code, messages ...string) error {
		var details []protoadapt.MessageV1
		for _, message := range messages {
			details = append(details, protoadapt.MessageV1Of(&gatewaypb.ErrorDetail{Message: message}))
		}
		s, err := status.New(code, "no orderers could successfully process transaction").WithDetails(details...)
		require.NoError(t, err)
		return s.Err()
	}
	refused := refusedByOrderer + ": status=SERVICE_UNAVAILABLE, info=no Raft leader at the moment"
	for name, c := range map[string]struct {
		err  error
		open bool
	}{
		"the connection is gone":        {status.Error(codes.Unavailable, "transport is closing"), true},
		"no answer in time":             {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true},
		"no orderer's in time":          {said(codes.DeadlineExceeded, refused), true},
		"all orderers have refused":     {said(codes.Unavailable, refused, refused), false},
		"one has failed":                {said(codes.Unavailable, refused, "EOF"), true},
		"there is too much to do":       {said(codes.ResourceExhausted, refused), false},
		"the client's fault":            {said(codes.Aborted, refused), false},
		"it was not sent: no signature": {errors.New("transaction x: no key"), false},
	} {
		assert.Equal(t, c.open, mayBeOrdered(c.err), name)
	}
}

// TestALedgersWriteWithoutAnAnswerIsLost, and keeps the stage and the code; what only reads is no write.
func TestALedgersWriteWithoutAnAnswerIsLost(t *testing.T) {
	gone := status.Error(codes.Unavailable, "transport is closing")
	for _, at := range []stage{stageSubmit, stageCommit} {
		net, err := readNetwork(startNetwork(t, &fakeGateway{lose: map[stage]error{at: gone}}))
		require.NoError(t, err)
		open, _, err := (&options{chaincode: "kv"}).opening(net, "mychannel")
		require.NoError(t, err)
		ledger, err := open(everyOne)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		for function, lost := range map[string]bool{"insert": true, "get": false} {
			o := ledger.do(ctx, 0, newCall(function, "k", "v"))
			assert.Equal(t, at, o.failedAt, o.detail)
			assert.Equal(t, "UNAVAILABLE", o.code)
			assert.Equal(t, []bool{lost, lost}, []bool{o.lost, o.unknown}, "%s at %s", function, at)
		}
		cancel()
		require.NoError(t, ledger.close())
	}
}
