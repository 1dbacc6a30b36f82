package protoutil

import "google.golang.org/protobuf/encoding/protowire"

// HeaderType reads the type of a serialized envelope without copying it, in well
// under a microsecond: every transaction passes here on every node. It is -1
// where the envelope is not well-formed, and where the way from its payload to the type (header,
// channel header: each time field 1) is not the plain one of one occurrence, at the front. Such an envelope must
// not be ordered, for others might read another type or other transactions in it.
func HeaderType(envelope []byte) int32 {
	at, _, err := SplitEnvelope(envelope)
	if err != nil {
		return -1
	}
	for range 2 {
		num, kind, n := protowire.ConsumeTag(at)
		if n < 0 || num != 1 || kind != protowire.BytesType {
			return -1
		}
		inner, m := protowire.ConsumeBytes(at[n:])
		if m < 0 || hasFirst(at[n+m:]) {
			return -1
		}
		at = inner
	}
	num, kind, n := protowire.ConsumeTag(at)
	if n < 0 || num != 1 || kind != protowire.VarintType {
		if hasFirst(at) {
			return -1
		}
		return 0 // proto3 leaves out a zero: MESSAGE
	}
	value, m := protowire.ConsumeVarint(at[n:])
	if m < 0 || hasFirst(at[n+m:]) {
		return -1
	}
	return int32(value)
}

// hasFirst reports whether a field 1 is in a message, or the message cannot be read.
func hasFirst(message []byte) bool {
	for len(message) > 0 {
		num, _, n := protowire.ConsumeField(message)
		if n < 0 || num == 1 {
			return true
		}
		message = message[n:]
	}
	return false
}
