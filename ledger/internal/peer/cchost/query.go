package cchost

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	// firstBatch and maxPage are Fabric's defaults: results in one answer, and in one page.
	firstBatch = 100
	maxPage    = 100_000
	// maxResults are in an answer to those who have had as many already: every answer wakes chaincode and peer. What a
	// contract that stops early has recorded, and not taken, is firstBatch at most, or as much as it had before.
	maxResults = 1000
	// batchBytes bounds the keys and values in one answer, of which a single result may have more. Thousands of
	// transactions run at once, and gRPC's own receivers refuse messages above 4 MiB.
	batchBytes = 2 << 20
	// maxQueries bounds the open queries of a call that closes none.
	maxQueries = 1000
)

// query is an open range query.
type query struct {
	it   Iterator
	more bool // it has further results
	had  int  // results that full answers have had
	// read are those that no answer has had: of a page all, because its bookmark goes with the first answer.
	read []*statedb.Entry
}

// next gives the results of one answer.
func (q *query) next() (entries []*statedb.Entry, more bool, err error) {
	most := min(max(q.had, firstBatch), maxResults)
	if len(q.read) == 0 && q.more {
		if q.read, q.more, err = q.it.Next(most); err != nil {
			return nil, false, err
		}
	}
	n := 0
	for size := 0; n < min(most, len(q.read)); n++ {
		if size += len(q.read[n].Key) + len(q.read[n].Value); size > batchBytes && n > 0 {
			break
		}
	}
	if n == most { // of long values, more at once would only be read too early
		q.had += n
	}
	entries, q.read = q.read[:n], q.read[n:]
	return entries, len(q.read) > 0 || q.more, nil
}

func (c *call) rangeQuery(payload []byte) ([]byte, error) {
	ask, page := &peerpb.GetStateByRange{}, &peerpb.QueryMetadata{}
	if err := protoutil.Unmarshal(payload, ask); err != nil {
		return nil, err
	}
	if err := protoutil.Unmarshal(ask.GetMetadata(), page); err != nil {
		return nil, err
	}
	if ask.GetCollection() != "" {
		return nil, errPrivateData
	}
	if len(c.queries) >= maxQueries {
		return nil, fmt.Errorf("%d range queries are open: no more are accepted", maxQueries)
	}
	q, metadata, err := c.open(ask, page)
	if err != nil {
		return nil, err
	}
	c.opened++
	id := strconv.Itoa(c.opened)
	if c.queries == nil {
		c.queries = map[string]*query{}
	}
	c.queries[id] = q
	return c.batch(id, q, metadata)
}

func (c *call) open(ask *peerpb.GetStateByRange, page *peerpb.QueryMetadata) (*query, []byte, error) {
	start := ask.GetStartKey()
	paged := page.GetPageSize() != 0 || page.GetBookmark() != ""
	if paged {
		if size := page.GetPageSize(); size < 0 {
			return nil, nil, fmt.Errorf("page size %d: 0 and more are accepted", size)
		}
		if c.tx.wrote {
			return nil, nil, errWritePaged
		}
		c.tx.paged = true
		if page.GetBookmark() != "" {
			start = page.GetBookmark()
		}
	}
	it, err := c.tx.ledger.Range(c.namespace, start, ask.GetEndKey())
	if err != nil || !paged {
		return &query{it: it, more: true}, nil, err
	}
	size := int(page.GetPageSize())
	if size == 0 || size > maxPage { // as in Fabric; a bookmark leads to the rest
		size = maxPage
	}
	entries, more, err := it.Next(size)
	if err != nil {
		return nil, nil, err
	}
	about := &peerpb.QueryResponseMetadata{FetchedRecordsCount: int32(len(entries))}
	if more {
		about.Bookmark = it.NextKey()
	}
	metadata, err := proto.Marshal(about)
	return &query{read: entries}, metadata, err
}

// batch answers with the next results; a query without more is forgotten.
func (c *call) batch(id string, q *query, metadata []byte) ([]byte, error) {
	entries, more, err := q.next()
	if !more || err != nil {
		delete(c.queries, id)
	}
	if err != nil {
		return nil, err
	}
	answer, err := proto.Marshal(&peerpb.QueryResponse{HasMore: more, Id: id, Metadata: metadata})
	if err != nil {
		return nil, err
	}
	return appendResults(answer, c.namespace, entries), nil
}

// appendResults adds the results to an encoded QueryResponse, each a KV in a QueryResultBytes. An analysis reads ten
// thousand, and by protobuf's own encoder each is three objects and two copies.
func appendResults(answer []byte, namespace string, entries []*statedb.Entry) []byte {
	for _, e := range entries {
		kv := sizeString(namespace) + sizeString(e.Key) + sizeString(e.Value)
		answer = protowire.AppendVarint(protowire.AppendTag(answer, 1, protowire.BytesType), uint64(1+protowire.SizeBytes(kv)))
		answer = protowire.AppendVarint(protowire.AppendTag(answer, 1, protowire.BytesType), uint64(kv))
		for i, field := range []string{namespace, e.Key, e.Value} {
			answer = protowire.AppendString(protowire.AppendTag(answer, protowire.Number(i+1), protowire.BytesType), field)
		}
	}
	return answer
}

// sizeString is the size of a field with a number below 16.
func sizeString(field string) int { return 1 + protowire.SizeBytes(len(field)) }

func (c *call) queryNext(payload []byte) ([]byte, error) {
	ask := &peerpb.QueryStateNext{}
	if err := protoutil.Unmarshal(payload, ask); err != nil {
		return nil, err
	}
	q := c.queries[ask.GetId()]
	if q == nil {
		return nil, errors.New("query iterator not found")
	}
	return c.batch(ask.GetId(), q, nil)
}

// queryClose forgets a query. Shims also close those that they have read to the end.
func (c *call) queryClose(payload []byte) ([]byte, error) {
	ask := &peerpb.QueryStateClose{}
	if err := protoutil.Unmarshal(payload, ask); err != nil {
		return nil, err
	}
	delete(c.queries, ask.GetId())
	return proto.Marshal(&peerpb.QueryResponse{Id: ask.GetId()})
}
