package endorser

import (
	"context"
	"time"

	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Logged has each execution logged when it ends, with the fields of Fabric's line.
func Logged(chaincodes Chaincodes) Chaincodes { return logged{chaincodes} }

type logged struct{ Chaincodes }

func (l logged) Execute(ctx context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	began := time.Now()
	response, event, err := l.Chaincodes.Execute(ctx, in, ledger)
	log.Infof("finished chaincode: %s duration: %dms channel=%s txID=%.8s", in.Chaincode, time.Since(began).Milliseconds(), in.ChannelID, in.TxID)
	return response, event, err
}
