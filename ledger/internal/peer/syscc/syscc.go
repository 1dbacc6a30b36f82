// Package syscc answers what clients ask Fabric's system chaincodes: qscc (blocks and
// transactions), cscc (channels and their configuration) and _lifecycle (definitions of
// chaincodes). What would change something is refused: a peer's channels stand in its file, and
// chaincodes in the channel's configuration.
package syscc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Fabric's policies for these queries.
const (
	readers = channelconfig.ApplicationReaders
	writers = channelconfig.ApplicationWriters
)

// Channel is what the queries need of a channel; *chain.Chain is one.
type Channel interface {
	Bundle() *channelconfig.Bundle
	Height() uint64
	Block(number uint64) (*commonpb.Block, error)
	BlockByHash(hash []byte) (*commonpb.Block, error)
	Find(txID string) (chain.Status, error)
	UntilChanged() <-chan struct{}
	Stopped() <-chan struct{}
}

// Query is one call. Who made it, its signature included, has been checked.
type Query struct {
	Chaincode string
	ChannelID string // of the proposal; empty where it names none
	Creator   []byte
	Args      [][]byte
}

// System is safe for concurrent use.
type System struct {
	mspID    string
	channels map[string]Channel
}

// New makes the system chaincodes of a peer of the organisation mspID, with the channels that it has joined.
func New(mspID string, channels map[string]Channel) *System {
	return &System{mspID: mspID, channels: channels}
}

// Local is a configuration that knows the peer's own organisation, and others: their members may ask without
// a channel. It is nil when the peer has joined none.
func (s *System) Local() *channelconfig.Bundle {
	for _, id := range slices.Sorted(maps.Keys(s.channels)) {
		return s.channels[id].Bundle()
	}
	return nil
}

// errNotDefined is Fabric's 404: the thing itself is missing, not the call wrong.
var errNotDefined = errors.New("is not defined")

// Answer runs a query. Its response has the status and the words of Fabric's.
func (s *System) Answer(ctx context.Context, q Query) *peerpb.Response {
	var answer proto.Message
	var err error
	switch q.Chaincode {
	case channelconfig.LedgerQueries:
		answer, err = s.ledgerQuery(ctx, q)
	case channelconfig.ChannelQueries:
		answer, err = s.channelQuery(q)
	case channelconfig.Lifecycle:
		answer, err = s.lifecycleQuery(q)
	case channelconfig.LegacyLifecycle:
		err = errors.New("lscc: definitions stand in the channel's configuration: peer lifecycle chaincode querycommitted shows them")
	default:
		err = fmt.Errorf("%q is no system chaincode", q.Chaincode)
	}
	var payload []byte
	if err == nil {
		payload, err = proto.Marshal(answer)
	}
	switch {
	case errors.Is(err, errNotDefined):
		return &peerpb.Response{Status: http.StatusNotFound, Message: protoutil.Text(err.Error())}
	case err != nil:
		return &peerpb.Response{Status: http.StatusInternalServerError, Message: protoutil.Text(err.Error())}
	default:
		return &peerpb.Response{Status: http.StatusOK, Payload: payload}
	}
}

// fabrics makes an error with Fabric's text, which does not follow Go's rules for error strings.
func fabrics(format string, args ...any) error { return fmt.Errorf(format, args...) }

// admits checks the client by the policy of the channel that it asks about.
func (q *Query) admits(ch Channel, policy string) error {
	_, err := ch.Bundle().Admits(q.Creator, policy)
	return err
}
