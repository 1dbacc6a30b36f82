package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// failures are the nodes that failed during a call, and how; of orderers also those whose SUCCESS was not enough.
type failures []*gatewaypb.ErrorDetail

func (f *failures) add(n node, message string) {
	*f = append(*f, &gatewaypb.ErrorDetail{Address: n.address, MspId: n.mspID, Message: message})
}

// fail makes a gRPC error with these details.
func (f failures) fail(code codes.Code, message string) error {
	details := make([]protoadapt.MessageV1, len(f))
	for i, detail := range f {
		details[i] = protoadapt.MessageV1Of(detail)
	}
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil { // a detail that is not UTF-8
		return status.Error(code, message)
	}
	return st.Err()
}

// contextError gives an error of a context its gRPC code, and any other error code.
func contextError(err error, code codes.Code) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(code, err.Error())
}

// expired says whether a call's time is over. The clock counts too, not the context alone: gRPC
// fails a call by the clock, which may be before the context's timer fires.
func expired(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// verdict is what an endorser's answer means.
type verdict struct {
	code    codes.Code // OK: it endorsed
	message string
	retry   bool // another peer may do better
	absent  bool // nothing came of the peer: it cannot be asked, or does not have the chaincode
}

// judge tells failures of the network and of a peer, which another peer may not have,
// from those of the client and of the chaincode, which every peer would repeat.
func judge(n node, response *peerpb.ProposalResponse, err error) verdict {
	if err != nil {
		if n.local() { // nothing lies between us and this endorser: it refused the proposal
			return verdict{code: codes.FailedPrecondition, message: err.Error()}
		}
		return verdict{code: codes.Unavailable, message: err.Error(), retry: true, absent: true}
	}
	got := response.GetResponse()
	switch {
	case got.GetStatus() >= http.StatusOK && got.GetStatus() < http.StatusBadRequest:
		return verdict{}
	case len(response.GetPayload()) == 0 && got.GetStatus() == http.StatusInternalServerError:
		// Without a payload it is the peer's own failure, for example a chaincode that is away.
		return verdict{code: codes.Aborted, message: got.GetMessage(), retry: true, absent: lacksChaincode(got.GetMessage())}
	default:
		return verdict{code: codes.Unknown, message: fmt.Sprintf("chaincode response %d, %s", got.GetStatus(), got.GetMessage())}
	}
}

// lacksChaincode goes by the text, which is all that comes from another peer.
func lacksChaincode(message string) bool {
	return strings.Contains(message, cchost.ErrUnknown.Error()) || strings.Contains(message, cchost.ErrNotConnected.Error())
}
