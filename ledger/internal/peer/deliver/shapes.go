package deliver

import (
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

func whole(_ string, block *commonpb.Block) *peerpb.DeliverResponse {
	return &peerpb.DeliverResponse{Type: &peerpb.DeliverResponse_Block{Block: block}}
}

func withPrivateData(_ string, block *commonpb.Block) *peerpb.DeliverResponse {
	return &peerpb.DeliverResponse{Type: &peerpb.DeliverResponse_BlockAndPrivateData{
		BlockAndPrivateData: &peerpb.BlockAndPrivateData{Block: block},
	}}
}

// filtered keeps of an event its name, not its payload: that is for members who read whole blocks.
func filtered(channelID string, block *commonpb.Block) *peerpb.DeliverResponse {
	out := &peerpb.FilteredBlock{ChannelId: channelID, Number: block.GetHeader().GetNumber()}
	for _, r := range chain.RecordsOf(block, channelID) {
		tx := &peerpb.FilteredTransaction{Txid: r.TxID, Type: r.Type, TxValidationCode: r.Code}
		if r.Type == commonpb.HeaderType_ENDORSER_TRANSACTION {
			actions := &peerpb.FilteredTransactionActions{}
			if e := r.Event; e != nil {
				actions.ChaincodeActions = []*peerpb.FilteredChaincodeAction{{
					ChaincodeEvent: &peerpb.ChaincodeEvent{ChaincodeId: e.ChaincodeId, TxId: e.TxId, EventName: e.EventName},
				}}
			}
			tx.Data = &peerpb.FilteredTransaction_TransactionActions{TransactionActions: actions}
		}
		out.FilteredTransactions = append(out.FilteredTransactions, tx)
	}
	return &peerpb.DeliverResponse{Type: &peerpb.DeliverResponse_FilteredBlock{FilteredBlock: out}}
}
