package cchost_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/statedb"
)

func TestPagesGoOnAtTheirBookmarks(t *testing.T) {
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(nil, nil))
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}}).await("probe")
	var writes []statedb.Write
	for i := range 300 {
		writes = append(writes, statedb.Write{Namespace: "probe", Key: fmt.Sprintf("k%03d", i), Value: []byte("v")})
	}
	f.db.Apply(statedb.Version{Block: 1}, writes)

	assert.Equal(t, `3 of 3 to k002, then "k003"`, f.ok("probe", "page", "k", "l", "3", ""))
	assert.Equal(t, `150 of 150 to k152, then "k153"`, f.ok("probe", "page", "k", "l", "150", "k003"), "a page larger than a batch")
	assert.Equal(t, `100 of 100 to k299, then ""`, f.ok("probe", "page", "k", "l", "100", "k200"), "exactly the rest")
	assert.Equal(t, `0 of 0 to , then ""`, f.ok("probe", "page", "x", "y", "10", ""))
	assert.Equal(t, `300 of 300 to k299, then ""`, f.ok("probe", "page", "k", "l", "100001", ""), "more than a page may have")
	assert.Equal(t, `200 of 200 to k299, then ""`, f.ok("probe", "page", "k", "l", "0", "k100"), "as large as a page may be")
	assert.Contains(t, f.do("probe", "page", "k", "l", "-1", "").GetMessage(), "page size -1: 0 and more are accepted")
	assert.Contains(t, f.do("probe", "page", "k", "l", "3", "", "new").GetMessage(), "paged query is read-only")
}

// TestAPageEndsAtABound where it is asked for more: its bookmark leads to the rest, as in Fabric.
func TestAPageEndsAtABound(t *testing.T) {
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(nil, nil))
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}}).await("probe")
	const keys = 110_000
	writes := make([]statedb.Write, keys)
	for i := range writes {
		writes[i] = statedb.Write{Namespace: "probe", Key: fmt.Sprintf("k%06d", i), Value: []byte("v")}
	}
	f.db.Apply(statedb.Version{Block: 1}, writes)
	var read, fetched int
	var last, bookmark string
	_, err := fmt.Sscanf(f.ok("probe", "page", "k", "l", "1000000", ""), "%d of %d to %s then %q", &read, &fetched, &last, &bookmark)
	require.NoError(t, err)
	assert.Equal(t, read, fetched)
	assert.Equal(t, fmt.Sprintf("k%06d", read), bookmark, "after %s", last)
	assert.Equal(t, fmt.Sprintf(`%d of %[1]d to k109999, then ""`, keys-read), f.ok("probe", "page", "k", "l", "1000000", bookmark))
}
