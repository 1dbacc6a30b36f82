package scripttest

import "bytes"

// Junk is as much as a liar has room for.
var Junk = bytes.Repeat([]byte("junk"), 1<<18)

// Short is an oracle that believes everything, but that Junk is a transaction.
type Short struct{ Trusting }

// Check implements bft.Oracle.
func (Short) Check(tx []byte) (config, ok bool) { return false, len(tx) < len(Junk) }
