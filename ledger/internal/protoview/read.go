package protoview

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

const (
	number1, number2, number3, number4, number6 = 1*number | varint, 2*number | varint, 3*number | varint, 4*number | varint, 6*number | varint

	chunk1, chunk2, chunk3, chunk4 = 1*number | chunk, 2*number | chunk, 3*number | chunk, 4*number | chunk
	chunk5, chunk7, chunk8         = 5*number | chunk, 7*number | chunk, 8*number | chunk
)

// Read fills a message that is empty with what raw says. From then on raw must not change, and lives as long as any of
// the message's bytes. It returns false, and may have filled a part, where it is for the library to decide: of types
// that are not here, or not of the usual form.
func Read(raw []byte, into proto.Message) bool {
	switch m := into.(type) {
	case *commonpb.Envelope:
		return envelope(raw, m)
	case *commonpb.Payload:
		return payload(raw, m)
	case *commonpb.Header:
		return header(raw, m)
	case *commonpb.ChannelHeader:
		return channelHeader(raw, m)
	case *commonpb.SignatureHeader:
		return pair(raw, &m.Creator, &m.Nonce)
	case *peerpb.Proposal:
		return triple(raw, &m.Header, &m.Payload, &m.Extension)
	case *peerpb.ChaincodeProposalPayload:
		return triple(raw, &m.Input, nil, nil) // not with a transient map
	case *peerpb.ChaincodeInvocationSpec:
		return one(raw, chunk1, &m.ChaincodeSpec, chaincodeSpec)
	case *peerpb.ChaincodeHeaderExtension:
		return one(raw, chunk2, &m.ChaincodeId, chaincodeID)
	case *peerpb.Transaction:
		return transaction(raw, m)
	case *peerpb.ChaincodeActionPayload:
		return actionPayload(raw, m)
	case *peerpb.ProposalResponsePayload:
		return pair(raw, &m.ProposalHash, &m.Extension)
	case *peerpb.ChaincodeAction:
		return action(raw, m)
	case *rwsetpb.TxReadWriteSet:
		return readWriteSet(raw, m)
	case *streampb.LogEntry:
		return logEntry(raw, m)
	default:
		return false
	}
}

// some is what a field of bytes is set to: the library leaves one that is empty unset.
func some(bytes []byte) []byte {
	if len(bytes) == 0 {
		return nil
	}
	return bytes
}

// text sets a field, unless it is no text.
func text(bytes []byte, field *string) bool {
	*field = string(bytes)
	return utf8.Valid(bytes)
}

// message reads a message within another; the library merges one that is there twice.
func message[M any](bytes []byte, field **M, read func([]byte, *M) bool) bool {
	if *field != nil {
		return false
	}
	*field = new(M)
	return read(bytes, *field)
}

// one reads a message that has no field but that message.
func one[M any](raw []byte, at Tag, field **M, read func([]byte, *M) bool) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		return tag == at && message(bytes, field, read)
	})
}

func pair(raw []byte, first, second *[]byte) bool { return triple(raw, first, second, nil) }

// triple reads a message whose fields, from 1 on, are bytes.
func triple(raw []byte, first, second, third *[]byte) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		var field *[]byte
		switch tag {
		case chunk1:
			field = first
		case chunk2:
			field = second
		case chunk3:
			field = third
		}
		if field != nil {
			*field = some(bytes)
		}
		return field != nil
	})
}

func envelope(raw []byte, m *commonpb.Envelope) bool {
	return pair(raw, &m.Payload, &m.Signature)
}

func header(raw []byte, m *commonpb.Header) bool {
	return pair(raw, &m.ChannelHeader, &m.SignatureHeader)
}

func payload(raw []byte, m *commonpb.Payload) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		switch tag {
		case chunk1:
			return message(bytes, &m.Header, header)
		case chunk2:
			m.Data = some(bytes)
			return true
		}
		return false
	})
}

func channelHeader(raw []byte, m *commonpb.ChannelHeader) bool {
	return Fields(raw, func(tag Tag, bytes []byte, value uint64) bool {
		switch tag {
		case number1:
			m.Type = int32(value)
		case number2:
			m.Version = int32(value)
		case chunk3:
			return message(bytes, &m.Timestamp, timestamp)
		case chunk4:
			return text(bytes, &m.ChannelId)
		case chunk5:
			return text(bytes, &m.TxId)
		case number6:
			m.Epoch = value
		case chunk7:
			m.Extension = some(bytes)
		case chunk8:
			m.TlsCertHash = some(bytes)
		default:
			return false
		}
		return true
	})
}

func timestamp(raw []byte, m *timestamppb.Timestamp) bool {
	return Fields(raw, func(tag Tag, _ []byte, value uint64) bool {
		switch tag {
		case number1:
			m.Seconds = int64(value)
		case number2:
			m.Nanos = int32(value)
		default:
			return false
		}
		return true
	})
}

func chaincodeID(raw []byte, m *peerpb.ChaincodeID) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		switch tag {
		case chunk1:
			return text(bytes, &m.Path)
		case chunk2:
			return text(bytes, &m.Name)
		case chunk3:
			return text(bytes, &m.Version)
		}
		return false
	})
}

func chaincodeSpec(raw []byte, m *peerpb.ChaincodeSpec) bool {
	return Fields(raw, func(tag Tag, bytes []byte, value uint64) bool {
		switch tag {
		case number1:
			m.Type = peerpb.ChaincodeSpec_Type(value)
		case chunk2:
			return message(bytes, &m.ChaincodeId, chaincodeID)
		case chunk3:
			return message(bytes, &m.Input, chaincodeInput)
		case number4:
			m.Timeout = int32(value)
		default:
			return false
		}
		return true
	})
}

func chaincodeInput(raw []byte, m *peerpb.ChaincodeInput) bool {
	return Fields(raw, func(tag Tag, bytes []byte, value uint64) bool {
		switch tag {
		case chunk1:
			m.Args = append(m.Args, bytes)
		case number3:
			m.IsInit = value != 0
		default:
			return false
		}
		return true
	})
}

func transaction(raw []byte, m *peerpb.Transaction) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		next := &peerpb.TransactionAction{}
		m.Actions = append(m.Actions, next)
		return tag == chunk1 && pair(bytes, &next.Header, &next.Payload)
	})
}

func actionPayload(raw []byte, m *peerpb.ChaincodeActionPayload) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		switch tag {
		case chunk1:
			m.ChaincodeProposalPayload = some(bytes)
			return true
		case chunk2:
			return message(bytes, &m.Action, endorsedAction)
		}
		return false
	})
}

func endorsedAction(raw []byte, m *peerpb.ChaincodeEndorsedAction) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		switch tag {
		case chunk1:
			m.ProposalResponsePayload = some(bytes)
			return true
		case chunk2:
			next := &peerpb.Endorsement{}
			m.Endorsements = append(m.Endorsements, next)
			return pair(bytes, &next.Endorser, &next.Signature)
		}
		return false
	})
}

func action(raw []byte, m *peerpb.ChaincodeAction) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		switch tag {
		case chunk1:
			m.Results = some(bytes)
		case chunk2:
			m.Events = some(bytes)
		case chunk3:
			return message(bytes, &m.Response, response)
		case chunk4:
			return message(bytes, &m.ChaincodeId, chaincodeID)
		default:
			return false
		}
		return true
	})
}

func response(raw []byte, m *peerpb.Response) bool {
	return Fields(raw, func(tag Tag, bytes []byte, value uint64) bool {
		switch tag {
		case number1:
			m.Status = int32(value)
		case chunk2:
			return text(bytes, &m.Message)
		case chunk3:
			m.Payload = some(bytes)
		default:
			return false
		}
		return true
	})
}

func readWriteSet(raw []byte, m *rwsetpb.TxReadWriteSet) bool {
	return Fields(raw, func(tag Tag, bytes []byte, value uint64) bool {
		switch tag {
		case number1:
			m.DataModel = rwsetpb.TxReadWriteSet_DataModel(value)
			return true
		case chunk2:
			next := &rwsetpb.NsReadWriteSet{}
			m.NsRwset = append(m.NsRwset, next)
			return namespace(bytes, next)
		}
		return false
	})
}

func namespace(raw []byte, m *rwsetpb.NsReadWriteSet) bool {
	return Fields(raw, func(tag Tag, bytes []byte, _ uint64) bool {
		switch tag {
		case chunk1:
			return text(bytes, &m.Namespace)
		case chunk2:
			m.Rwset = some(bytes)
			return true
		}
		return false
	})
}

func logEntry(raw []byte, m *streampb.LogEntry) bool {
	return Fields(raw, func(tag Tag, bytes []byte, value uint64) bool {
		switch tag {
		case chunk1:
			m.Txs = append(m.Txs, bytes)
		case number2:
			m.Cut = value != 0
		case number3:
			m.CutBlock = value
		default:
			return false
		}
		return true
	})
}
