package load

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	contract "github.com/qioi/qioi/ledger/internal/contracts/scm"
	"github.com/qioi/qioi/ledger/internal/shim/shimtest"
)

func TestTheSupplyChainIsMostlyTransactions(t *testing.T) {
	for writes, name := range map[float64]string{0.95: "scm95", 0.99: "scm99"} {
		_, w, err := findWorkload("scm", name, workloadOptions{accounts: 10_000, seed: 1})
		require.NoError(t, err)
		assert.Len(t, w.setup(), scmContracts)
		counts := map[string]int{}
		const n = 20_000
		for i := range n {
			counts[string(w.call(i)[0])]++
		}
		_, again, err := findWorkload("scm", name, workloadOptions{accounts: 10_000, seed: 1})
		require.NoError(t, err)
		assert.Equal(t, w.setup(), again.setup(), "a second run finds what the first one made")
		analysed := counts["days_of_supply"] + counts["bullwhip"]
		assert.InDelta(t, (1-writes)*n, analysed, 0.01*n)
		for _, kind := range []string{"create_contract", "place_order", "update_order"} {
			assert.InDelta(t, writes*n/3, counts[kind], 0.02*n)
		}
	}
}

// TestInventoriesAreThoseOfTheFirstContracts, whatever the seeds of the runs that a ledger has seen: an analysis of all of
// them would cost the more the longer it has run.
func TestInventoriesAreThoseOfTheFirstContracts(t *testing.T) {
	made := map[[2]string]bool{}
	take := func(c call) {
		for _, vendor := range c[2:4] {
			made[[2]string{string(vendor), string(c[4])}] = true
		}
	}
	for _, c := range newSCM(workloadOptions{accounts: scmContracts, seed: 1}, 0.95).setup() {
		take(c)
	}
	first := len(made)
	assert.InDelta(t, 9500, first, 100)
	for seed := range uint64(5) {
		w := newSCM(workloadOptions{accounts: scmContracts, seed: seed}, 0.95)
		calls := w.setup()
		for i := range 5000 {
			calls = append(calls, w.call(i))
		}
		for _, c := range calls {
			if string(c[0]) == "create_contract" {
				take(c)
			}
		}
	}
	assert.Zero(t, len(made)-first, "inventories that were made later")
}

// TestDatabaseAndContractGiveTheSameAnswers sends one seeded sequence through both, refusals among them. QIOI_MYSQL may
// name the network.json of a running MySQL or MariaDB whose tables may be changed; without it, MariaDB is started.
func TestDatabaseAndContractGiveTheSameAnswers(t *testing.T) {
	network := os.Getenv("QIOI_MYSQL")
	if network == "" {
		network = startMariaDB(t)
	}
	server, err := newMySQL(systemMariaDB, endpoint{address: addressOf(t, network)}, &options{chaincode: "scm", clients: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.close()) }()
	for _, table := range []string{"contracts", "orders", "inventories"} {
		_, err := server.db.Exec("DROP TABLE IF EXISTS " + table)
		require.NoError(t, err)
	}
	require.NoError(t, server.setup(context.Background()))
	peer := shimtest.Start(t, contract.New())

	work := newSCM(workloadOptions{accounts: 200, seed: 7}, 0.8)
	calls := work.setup()
	for i := range 2000 {
		calls = append(calls, work.call(i))
	}
	calls = append(calls, // refused, and changing nothing
		newCall("create_contract", "c0", "1", "2", "3", "4"), newCall("create_contract", "new", "1", "1", "3", "4"),
		newCall("place_order", "c0", "c1", "4"), newCall("place_order", "new", "nobody", "4"), newCall("update_order", "nobody", "4"),
		newCall("bullwhip"), newCall("days_of_supply", "1"), newCall("days_of_supply", "999"))
	refused := 0
	for i, c := range calls {
		var words []string
		for _, word := range c {
			words = append(words, string(word))
		}
		want := peer.Invoke(words...)
		got, o := server.ask(context.Background(), c)
		require.Equal(t, want.GetStatus() == 200, o.failedAt == "", "%d: %v: %s / %v", i, words, want.GetMessage(), o)
		if o.failedAt != "" {
			assert.Equal(t, stageCommit, o.failedAt)
			refused++
			continue
		}
		require.Equal(t, string(want.GetPayload()), string(got), "%d: %s", i, strings.Join(words, " "))
	}
	assert.Equal(t, 5, refused)
}

func TestTheSupplyChainRunsOnADatabaseWithoutFailures(t *testing.T) {
	network := startMariaDB(t)
	r, err := execute(context.Background(), t, "--network", network, "--clients", "16", "--chaincode", "scm", "--accounts", "300",
		"--warmup", "0s", "--duration", "1s", "--record", filepath.Join(t.TempDir(), "record"))
	require.NoError(t, err)
	assert.Zero(t, r.Failed, r.Failures)
	assert.Equal(t, "scm95", r.Workload)
	again, err := execute(context.Background(), t, "--network", network, "--clients", "2", "--chaincode", "scm", "--workload", "scm99",
		"--accounts", "300", "--warmup", "0s", "--duration", "1s")
	require.NoError(t, err, "what an earlier run has made is as good")
	assert.Zero(t, again.Failed, again.Failures)
}
