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

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

func TestWhichErrorsOfSubmitLeaveATransactionOpen(t *testing.T) {
	words := func(code codes.Code, message string, details ...string) error {
		var all []protoadapt.MessageV1
		for _, detail := range details {
			all = append(all, protoadapt.MessageV1Of(&gatewaypb.ErrorDetail{Message: detail}))
		}
		s, err := status.New(code, message).WithDetails(all...)
		require.NoError(t, err)
		return s.Err()
	}
	said := func(code codes.Code, details ...string) error {
		return words(code, "no orderers could successfully process transaction", details...)
	}
	const (
		refused = protoutil.RefusedByOrderer + ": status=SERVICE_UNAVAILABLE, info=no Raft leader at the moment"
		success = "SUCCESS was said by too few orderers: 2 are needed"
		quorum  = "insufficient number of orderers could successfully process transaction to satisfy quorum requirement"
	)
	type row struct {
		err  error
		open bool
	}
	rows := map[string]row{
		"the connection is gone":                     {status.Error(codes.Unavailable, "transport is closing"), true},
		"no answer in time":                          {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true},
		"no orderer's in time":                       {said(codes.DeadlineExceeded, refused), true},
		"all orderers have refused":                  {said(codes.Unavailable, refused, refused), false},
		"one has failed":                             {said(codes.Unavailable, refused, "EOF"), true},
		"there is too much to do":                    {said(codes.ResourceExhausted, refused), false},
		"the gateway itself has too much to do":      {said(codes.ResourceExhausted, protoutil.OrdererBacklog), false},
		"one has failed, one has too much to do":     {said(codes.ResourceExhausted, "EOF", refused), true},
		"one has failed, the next was not asked":     {said(codes.ResourceExhausted, "EOF", protoutil.OrdererBacklog), true},
		"the client's fault":                         {said(codes.Aborted, refused), false},
		"one has failed, one finds fault":            {said(codes.Aborted, "EOF", refused), true},
		"too few have said SUCCESS":                  {said(codes.Unavailable, refused, refused, success), true},
		"too few, as two have too much to do":        {said(codes.ResourceExhausted, refused, refused, success), true},
		"Fabric does not say who has said SUCCESS":   {words(codes.Unavailable, quorum, refused, refused), true},
		"the peer went on after a stream was broken": {status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"), true},
		"the call was cancelled":                     {status.Error(codes.Canceled, "context canceled"), true},
		"a proxy's word":                             {status.Error(codes.Unknown, "unexpected HTTP status code received from server: 500"), true},
		"it was not sent: no signature":              {errors.New("transaction x: no key"), false},
	}
	for _, code := range []codes.Code{ // no orderer was asked
		codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.FailedPrecondition, codes.NotFound,
		codes.ResourceExhausted, codes.Aborted, codes.Unimplemented,
	} {
		rows["not admitted: "+code.String()] = row{status.Error(code, "no"), false}
	}
	for name, c := range rows {
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
