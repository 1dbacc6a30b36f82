package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	connectTimeout = 10 * time.Second
	// A fixed window, wide enough for hundreds of transactions under way, spares
	// the pings with which gRPC otherwise estimates one.
	windowBytes     = 4 << 20
	maxMessageBytes = 100 << 20
)

// stage names a call of the gateway.
type stage string

// The stages of a ledger's transaction, in order.
const (
	stageEndorse stage = "endorse"
	stageSubmit  stage = "submit"
	stageCommit  stage = "commit" // also where a database refuses a transaction beside others
)

// Where else an operation can fail.
const (
	stageEvaluate  stage = "evaluate"
	stageConnect   stage = "connect" // on a connection, or in a process, of its own
	stageOperation stage = "operation"
)

// codeUnknown is the verdict of a write whose answer was lost, and of which nothing could be found out. A ledger's call has
// its stage and gRPC's code instead.
const codeUnknown = "UNKNOWN"

// client is one gateway peer over one HTTP/2 connection.
type client struct {
	name    string
	conn    *grpc.ClientConn
	gateway gatewaypb.GatewayClient
	drafter *drafter
}

func dial(e endpoint, channel, chaincode string, pace *wire.Pacer) (*client, error) {
	creds := insecure.NewCredentials()
	if e.tlsCA != "" {
		roots := x509.NewCertPool()
		text, err := os.ReadFile(e.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("TLS authority of %s: %w", e.name, err)
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("TLS authority of %s: no PEM certificate in %s", e.name, e.tlsCA)
		}
		creds = credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient(e.address, pace.Dialer(), grpc.WithTransportCredentials(creds),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)))
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", e.name, err)
	}
	d, err := newDrafter(e.signer, channel, chaincode)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &client{name: e.name, conn: conn, gateway: gatewaypb.NewGatewayClient(conn), drafter: d}, nil
}

// connect waits until the peer answers, so that a wrong address is one clear
// line and not a failure per transaction.
func (c *client) connect(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for c.conn.Connect(); ; {
		state := c.conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if !c.conn.WaitForStateChange(limited, state) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("peer %s at %s does not answer within %s", c.name, c.conn.Target(), connectTimeout)
		}
		c.conn.Connect()
	}
}

// transact takes one transaction through the three stages.
func (c *client) transact(ctx context.Context, args [][]byte) outcome {
	began := time.Now()
	request, err := c.drafter.proposal(args, began)
	if err != nil {
		return outcome{failedAt: stageEndorse, code: "CLIENT", detail: err.Error()}
	}
	o := outcome{txID: request.GetTransactionId()}
	endorsed, err := c.gateway.Endorse(ctx, request)
	o.endorse = time.Since(began)
	if err != nil {
		return o.failed(stageEndorse, err)
	}

	began = time.Now()
	submit, err := c.drafter.submit(o.txID, endorsed.GetPreparedTransaction())
	var ask <-chan signedStatus
	if err == nil {
		ask = c.drafter.statusAhead(o.txID)
		_, err = c.gateway.Submit(ctx, submit)
	}
	o.submit = time.Since(began)
	if err != nil {
		o = o.failed(stageSubmit, err)
		o.lost = mayBeOrdered(err)
		o.unknown = o.lost
		return o
	}

	began = time.Now()
	var committed *gatewaypb.CommitStatusResponse
	status := <-ask
	if err = status.err; err == nil {
		committed, err = c.gateway.CommitStatus(ctx, status.request)
	}
	o.commit = time.Since(began)
	if err != nil { // it was ordered, and nobody said whether it is valid
		o = o.failed(stageCommit, err)
		o.lost, o.unknown = true, true
		return o
	}
	o.block = committed.GetBlockNumber()
	if code := committed.GetResult(); code != peerpb.TxValidationCode_VALID {
		o.failedAt, o.code = stageCommit, code.String()
	}
	return o
}

func (o outcome) failed(at stage, err error) outcome {
	o.failedAt = at
	s, _ := status.FromError(err)
	o.code, o.detail = codeName(s.Code()), s.Message()
	for _, d := range s.Details() {
		if d, ok := d.(*gatewaypb.ErrorDetail); ok {
			o.detail += fmt.Sprintf("; %s (%s): %s", d.GetAddress(), d.GetMspId(), d.GetMessage())
		}
	}
	return o
}

// quorumMissed begins Fabric's error where orderers may lie and too few have said SUCCESS. Its details leave out who has.
const quorumMissed = "insufficient number of orderers could successfully process transaction"

// mayBeOrdered tells whether a transaction may be ordered though its Submit has failed. It is not where the call was not
// made, where the gateway says that it asked no orderer, and where all that it names have refused. The code alone does not
// tell: it may be the last orderer's refusal, after another one was handed the transaction and has failed.
func mayBeOrdered(err error) bool {
	s, called := status.FromError(err)
	if !called {
		return false
	}
	refused := false
	for _, d := range s.Details() {
		if d, ok := d.(*gatewaypb.ErrorDetail); ok {
			if !strings.HasPrefix(d.GetMessage(), protoutil.RefusedByOrderer) && d.GetMessage() != protoutil.OrdererBacklog {
				return true
			}
			refused = true
		}
	}
	switch s.Code() {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.FailedPrecondition, codes.NotFound,
		codes.ResourceExhausted, codes.Aborted, codes.Unimplemented:
		return false // before an orderer was asked, or its refusal
	case codes.Unavailable:
		return !refused || strings.HasPrefix(s.Message(), quorumMissed)
	}
	return true // the network, a clock or the client ended the call, and the gateway may have gone on
}

// codeName spells a gRPC code as its specification does.
func codeName(c codes.Code) string {
	name := []byte(c.String())
	var out []byte
	for i, b := range name {
		upper := b >= 'A' && b <= 'Z'
		if upper && i > 0 && name[i-1] >= 'a' {
			out = append(out, '_')
		}
		if !upper {
			b -= 'a' - 'A'
		}
		out = append(out, b)
	}
	return string(out)
}
