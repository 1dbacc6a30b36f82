package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARingsNodesAreTakenInTurn(t *testing.T) {
	nodes := []endpoint{{name: "replica1", address: "127.0.0.1:9042"}, {name: "replica2", address: "127.0.0.2:9042"}}
	o := &options{chaincode: "kv", consistency: "one", timeout: time.Second}
	whole, err := newCassandra(narrow(nodes, everyOne), 2, o)
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.1", "127.0.0.2"}, whole.config.Hosts)
	assert.Equal(t, gocql.One, whole.reads)
	one, err := newCassandra(narrow(nodes, 3), 2, o)
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.2"}, one.config.Hosts)
	_, err = newCassandra(nodes, 2, &options{chaincode: "scm"})
	require.ErrorContains(t, err, `--chaincode "scm": system cassandra has kv`)
}

// TestValuesThatTellNoUpdateFromAnotherAreRefused; a key that is inserted is nobody else's.
func TestValuesThatTellNoUpdateFromAnotherAreRefused(t *testing.T) {
	for _, c := range []struct {
		system, workload string
		size             int
		refused          bool
	}{
		{"cassandra", "update", uniqueSize - 1, true},
		{"cassandra", "ycsb50", 1, true},
		{"cassandra", "update", uniqueSize, false},
		{"cassandra", "insert", 1, false},
		{"cassandra", "put", 1, false},
		{"mariadb", "update", 1, false},
	} {
		net, err := readNetwork(writeReplicas(t, t.TempDir(), c.system, "127.0.0.1:9042"))
		require.NoError(t, err)
		o := &options{clients: 1, workload: c.workload, consistency: "one"}
		o.knobs.accounts, o.knobs.valueSize = 10, c.size
		made, _, err := o.build(net)
		if c.refused {
			require.ErrorContains(t, err, fmt.Sprintf("--value-size %d: cassandra's updates are told apart by their values: at least 29 bytes", c.size), c)
			continue
		}
		require.NoError(t, err, c)
		require.NoError(t, made.close())
	}
}

func TestWhichErrorsLeaveAWriteOpen(t *testing.T) {
	for err, open := range map[error]bool{
		&gocql.RequestErrWriteTimeout{WriteType: "CAS"}:   true,
		&gocql.RequestErrCASWriteUnknown{}:                true,
		gocql.ErrTimeoutNoResponse:                        true,
		gocql.ErrConnectionClosed:                         true,
		context.DeadlineExceeded:                          true,
		&gocql.RequestErrWriteFailure{}:                   true,
		io.EOF:                                            true,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET}: true,
		errors.New("gocql: heartbeat failed"):             true,
		&gocql.RequestErrUnavailable{}:                    false,
		&gocql.RequestErrReadTimeout{}:                    false,
		refusal(gocql.ErrCodeSyntax):                      false,
		refusal(gocql.ErrCodeOverloaded):                  false,
		gocql.ErrNoConnections:                            false,
		gocql.ErrNoStreams:                                false,
	} {
		wrapped := fmt.Errorf("wrapped: %w", err)
		assert.Equal(t, open, answerLost(wrapped), err)
		put := putOutcome(outcome{txID: "k"}, wrapped)
		assert.Equal(t, open, put == outcome{txID: "k"}.open(wrapped.Error()), err)
		assert.NotEmpty(t, put.failedAt, err)
	}
}

func TestAPutThatIsAnsweredIsCommitted(t *testing.T) {
	assert.Equal(t, outcome{txID: "k"}, putOutcome(outcome{txID: "k"}, nil))
}

func TestWhatAFoundValueSaysOfAWrite(t *testing.T) {
	const nothing = ""
	for _, c := range []struct {
		old, found string
		applied    bool
		err        error
	}{
		{"old", "new", true, nil},
		{"old", "old", false, nil},
		{"old", "another client's", false, errOverwritten},
		{"old", nothing, false, errOverwritten},
		{nothing, "new", true, nil},
		{nothing, nothing, false, nil},
		{nothing, "another client's", false, errOverwritten},
	} {
		applied, err := tookPlace([]byte(c.found), []byte(c.old), []byte("new"))
		assert.Equal(t, c.applied, applied, c)
		assert.Equal(t, c.err, err, c)
	}
}

// TestAnOldValueSaysNothingWhileTheCoordinatorMayBeginAnew, and a new one does at once.
func TestAnOldValueSaysNothingWhileTheCoordinatorMayBeginAnew(t *testing.T) {
	for name, c := range map[string]struct {
		settled time.Duration // from now on
		finds   []string      // one after the other; "": an error
		after   time.Duration // that it is known
		applied bool
		err     error
	}{
		"it comes":              {4 * time.Second, []string{"old", "new"}, 4 * time.Second, true, nil},
		"it does not come":      {4 * time.Second, []string{"old", "old"}, 4 * time.Second, false, nil},
		"it is there":           {4 * time.Second, []string{"new"}, 0, true, nil},
		"another's comes":       {4 * time.Second, []string{"old", "another's"}, 4 * time.Second, false, errOverwritten},
		"no answer at first":    {-time.Second, []string{"", "old"}, resolvePause, false, nil},
		"it began long ago":     {-time.Second, []string{"old"}, 0, false, nil},
		"it is open for longer": {time.Hour, []string{"old"}, resolvePatience, false, errUnsettled},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, finds := time.Now(), c.finds
			applied, err := resolve(context.Background(), began.Add(c.settled), []byte("old"), []byte("new"), func(context.Context) ([]byte, error) {
				found := finds[0]
				finds = finds[1:]
				if found == "" {
					return nil, errors.New("no answer")
				}
				return []byte(found), nil
			})
			assert.Equal(t, c.applied, applied, name)
			assert.Equal(t, c.err, err, name)
			assert.Empty(t, finds, name)
			assert.Equal(t, c.after, time.Since(began), name)
		})
	}
}

func TestWhichErrorsOfARingAreNoReasonToGiveUpTheSetup(t *testing.T) {
	for code, passes := range map[int]bool{
		gocql.ErrCodeUnavailable: true, gocql.ErrCodeOverloaded: true, gocql.ErrCodeReadTimeout: true,
		gocql.ErrCodeSyntax: false, gocql.ErrCodeUnauthorized: false,
	} {
		o := cqlOutcome(outcome{}, refusal(code))
		assert.Equal(t, passes, mayPass(o), o.code)
	}
	assert.True(t, mayPass(putOutcome(outcome{}, &gocql.RequestErrWriteTimeout{})))
}

// refusal is an error by which a node answers.
type refusal int

func (e refusal) Code() int       { return int(e) }
func (e refusal) Message() string { return "no" }
func (e refusal) Error() string   { return e.Message() }

func TestLostAnswersAreCountedByWhatBecameOfThem(t *testing.T) {
	p := plan{duration: time.Second}
	start := time.Unix(1_000_000, 0)
	rec := newRecorder(start, p)
	for _, o := range []outcome{
		{lost: true}, // found out: it took place
		{lost: true, failedAt: stageCommit, code: "NOT_APPLIED"},
		{lost: true, unknown: true, failedAt: stageCommit, code: codeUnknown},
		{},
	} {
		rec.send(start)
		rec.finish(o, newCall("insert", "k", "v"), start, start.Add(time.Millisecond))
	}
	r := newResult(&pacer{plan: p, start: start}, rec, CPU{}, start.Add(time.Second), false)
	assert.Equal(t, int64(2), r.Committed)
	assert.Equal(t, int64(2), r.Failed)
	assert.Equal(t, int64(3), r.Lost)
	assert.Equal(t, int64(1), r.Unknown)
}
