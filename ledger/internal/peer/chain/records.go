package chain

import (
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Record is what listeners learn of a committed transaction.
type Record struct {
	TxID  string
	Type  commonpb.HeaderType
	Code  Code
	Event *peerpb.ChaincodeEvent // nil when there is none
}

// RecordsOf reads the records out of a kept block.
func RecordsOf(block *commonpb.Block, channelID string) []Record {
	flags := Flags(block)
	recs := make([]Record, 0, len(block.GetData().GetData()))
	for i, raw := range block.GetData().GetData() {
		code := peerpb.TxValidationCode_NOT_VALIDATED
		if i < len(flags) {
			code = Code(flags[i])
		}
		tx, _ := validate.Parse(raw, channelID)
		recs = append(recs, Record{TxID: tx.ID, Type: tx.Type, Code: code, Event: tx.Event})
	}
	return recs
}
