package shim

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/queryresultpb"
)

// Iterator walks the result of a range query in the order of keys. Close it
// when it was not walked to its end: the peer keeps the query open until then.
type Iterator struct {
	stub    *Stub
	id      string
	batch   []*peerpb.QueryResultBytes
	hasMore bool
	err     error
}

// Page is what a paged query says beside its results.
type Page struct {
	Fetched  int    // results on this page
	Bookmark string // where the next page starts; empty after the last
}

// GetStateByRange walks the simple keys from start up to, not including, end;
// an empty end is the end of all keys.
func (s *Stub) GetStateByRange(start, end string) (*Iterator, error) {
	it, _, err := s.simpleQuery(start, end, nil)
	return it, err
}

// GetStateByRangeWithPagination gives at most pageSize results, from bookmark on
// where it is not empty.
func (s *Stub) GetStateByRangeWithPagination(start, end string, pageSize int32, bookmark string) (*Iterator, Page, error) {
	return s.simpleQuery(start, end, &peerpb.QueryMetadata{PageSize: pageSize, Bookmark: bookmark})
}

// GetStateByPartialCompositeKey walks the composite keys that begin with these
// parts.
func (s *Stub) GetStateByPartialCompositeKey(objectType string, attributes []string) (*Iterator, error) {
	it, _, err := s.compositeQuery(objectType, attributes, nil)
	return it, err
}

// GetStateByPartialCompositeKeyWithPagination is the paged form.
func (s *Stub) GetStateByPartialCompositeKeyWithPagination(
	objectType string, attributes []string, pageSize int32, bookmark string,
) (*Iterator, Page, error) {
	return s.compositeQuery(objectType, attributes, &peerpb.QueryMetadata{PageSize: pageSize, Bookmark: bookmark})
}

func (s *Stub) simpleQuery(start, end string, page *peerpb.QueryMetadata) (*Iterator, Page, error) {
	start, end, err := simpleRange(start, end)
	if err != nil {
		return nil, Page{}, err
	}
	return s.query(start, end, page)
}

func (s *Stub) compositeQuery(objectType string, attributes []string, page *peerpb.QueryMetadata) (*Iterator, Page, error) {
	start, end, err := partialRange(objectType, attributes)
	if err != nil {
		return nil, Page{}, err
	}
	return s.query(start, end, page)
}

func (s *Stub) query(start, end string, page *peerpb.QueryMetadata) (*Iterator, Page, error) {
	question := &peerpb.GetStateByRange{StartKey: start, EndKey: end}
	if page != nil {
		metadata, err := proto.Marshal(page)
		if err != nil {
			return nil, Page{}, fmt.Errorf("page of a range query: %w", err)
		}
		question.Metadata = metadata
		s.paged = true
	}
	// A peer refuses paged queries to a transaction that has written.
	if err := s.flush(); err != nil {
		return nil, Page{}, err
	}
	it := &Iterator{stub: s}
	response, err := it.fetch(peerpb.ChaincodeMessage_GET_STATE_BY_RANGE, question)
	if err != nil {
		return nil, Page{}, err
	}
	about := &peerpb.QueryResponseMetadata{}
	if err := proto.Unmarshal(response.GetMetadata(), about); err != nil {
		return nil, Page{}, fmt.Errorf("metadata of a range query: %w", err)
	}
	return it, Page{Fetched: int(about.GetFetchedRecordsCount()), Bookmark: about.GetBookmark()}, nil
}

// fetch asks for a batch and keeps it.
func (it *Iterator) fetch(kind peerpb.ChaincodeMessage_Type, question proto.Message) (*peerpb.QueryResponse, error) {
	payload, err := it.stub.ask(kind, question)
	if err != nil {
		return nil, err
	}
	response := &peerpb.QueryResponse{}
	if err := proto.Unmarshal(payload, response); err != nil {
		return nil, fmt.Errorf("%s: the peer's answer: %w", kind, err)
	}
	it.id, it.batch, it.hasMore = response.GetId(), response.GetResults(), response.GetHasMore()
	return response, nil
}

// HasNext reports whether Next has a result or an error to give.
func (it *Iterator) HasNext() bool {
	for it.err == nil && len(it.batch) == 0 && it.hasMore {
		_, it.err = it.fetch(peerpb.ChaincodeMessage_QUERY_STATE_NEXT, &peerpb.QueryStateNext{Id: it.id})
	}
	return it.err != nil || len(it.batch) > 0
}

// Next returns the next key and value.
func (it *Iterator) Next() (*queryresultpb.KV, error) {
	if !it.HasNext() {
		return nil, fmt.Errorf("the range query has no further results")
	}
	if it.err != nil {
		return nil, it.err
	}
	kv := &queryresultpb.KV{}
	if err := proto.Unmarshal(it.batch[0].GetResultBytes(), kv); err != nil {
		return nil, fmt.Errorf("a result of a range query: %w", err)
	}
	it.batch = it.batch[1:]
	return kv, nil
}

// Close lets the peer forget the query. A query that was read to its end is
// closed by the peer itself.
func (it *Iterator) Close() error {
	it.batch = nil
	if !it.hasMore {
		return nil
	}
	it.hasMore = false
	_, err := it.stub.ask(peerpb.ChaincodeMessage_QUERY_STATE_CLOSE, &peerpb.QueryStateClose{Id: it.id})
	return err
}
