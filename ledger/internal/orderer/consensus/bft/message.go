package bft

import "bytes"

// Request hands transactions on: to a replica, to the leader, or to all when the leader takes long.
type Request struct{ Txs [][]byte }

// Want asks for the entry of a digest.
type Want struct {
	Epoch, Seq uint64
	Digest     Digest
}

// Have answers a Want.
type Have struct {
	Epoch, Seq uint64
	Entry      *Entry
}

// Kind implements Message; so do those below.
func (*Request) Kind() string { return "request" }
func (*Want) Kind() string    { return "want" }
func (*Have) Kind() string    { return "have" }

// Write spells the message; so do those below. The protocol has said before which one it is.
func (m *Request) Write(w *Writer) {
	w.Uint(uint64(len(m.Txs)))
	for _, tx := range m.Txs {
		w.Chunk(tx)
	}
}

// Own is a transaction of the request, for who keeps it longer than that: where it has others beside it, it is a copy, for it
// would hold their memory too.
func (m *Request) Own(at int) []byte {
	if len(m.Txs) == 1 {
		return m.Txs[0]
	}
	return bytes.Clone(m.Txs[at])
}

// ReadRequest reads a Request of at most so many transactions.
func ReadRequest(r *Reader, most int) *Request { return &Request{Txs: r.txs(most)} }

// Write spells the message.
func (m *Want) Write(w *Writer) {
	w.Uint(m.Epoch)
	w.Uint(m.Seq)
	w.Digest(m.Digest)
}

// ReadWant reads a Want.
func ReadWant(r *Reader) *Want { return &Want{Epoch: r.Uint(), Seq: r.Uint(), Digest: r.Digest()} }

// Write spells the message.
func (m *Have) Write(w *Writer) {
	w.Uint(m.Epoch)
	w.Uint(m.Seq)
	w.Entry(m.Entry)
}

// ReadHave reads a Have.
func ReadHave(r *Reader) *Have { return &Have{Epoch: r.Uint(), Seq: r.Uint(), Entry: r.Body()} }

// Statement begins what a replica signs: with what it is, so that none passes for another, and the channel's name.
func Statement(domain string, kind uint64) *Writer {
	w := &Writer{Bytes: make([]byte, 0, 128)}
	w.Uint(kind)
	w.Chunk([]byte(domain))
	return w
}
