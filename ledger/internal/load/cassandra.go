package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// consistencies are the levels at which reads may be asked for.
var consistencies = map[string]gocql.Consistency{
	"one": gocql.One, "quorum": gocql.Quorum, "all": gocql.All, "serial": gocql.Serial,
}

// Every node keeps every key; inserts and updates are compare-and-set operations (Paxos), agreed on by a majority.
const (
	cqlKeyspace = "CREATE KEYSPACE IF NOT EXISTS qioi WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}"
	cqlTable    = "CREATE TABLE IF NOT EXISTS qioi.kv (k text PRIMARY KEY, v blob)"
	cqlPut      = "INSERT INTO qioi.kv (k, v) VALUES (?, ?)"
	cqlGet      = "SELECT v FROM qioi.kv WHERE k = ?"
	cqlInsert   = "INSERT INTO qioi.kv (k, v) VALUES (?, ?) IF NOT EXISTS"
	cqlUpdate   = "UPDATE qioi.kv SET v = ? WHERE k = ? IF v = ?"
)

const (
	// cassandraConns is how many connections each node gets; a connection takes thousands of requests at once.
	cassandraConns = 2
	// resolvePatience bounds the search for what became of a write; resolvePause lies between two looks.
	resolvePatience = 10 * time.Second
	resolvePause    = 200 * time.Millisecond
	// coordinatorPatience is for how long after a write has begun its coordinator may still put it to the vote: by default
	// that gives up after 2 s, and its clock begins a little later.
	coordinatorPatience = 5 * time.Second
)

// cassandra is a ring, by the driver's own balancing: nodes in turn.
type cassandra struct {
	config  *gocql.ClusterConfig
	ring    int
	reads   gocql.Consistency
	session *gocql.Session
}

// newCassandra is for some nodes of a ring of so many.
func newCassandra(nodes []endpoint, ring int, o *options) (*cassandra, error) {
	if o.chaincode != "kv" {
		return nil, unknownSchema(systemCassandra, o.chaincode, "kv")
	}
	var hosts []string
	var port string
	for _, n := range nodes {
		host, at, err := net.SplitHostPort(n.address)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.name, err)
		}
		hosts, port = append(hosts, host), at
	}
	config := gocql.NewCluster(hosts...)
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", port, err)
	}
	config.Port, config.ProtoVersion, config.NumConns = number, 4, cassandraConns
	config.Timeout, config.WriteTimeout, config.ConnectTimeout = o.timeout, o.timeout, connectTimeout
	config.Consistency, config.SerialConsistency = gocql.Quorum, gocql.Serial
	if len(nodes) < ring { // neither the other nodes are wanted nor what is told of them
		config.NumConns, config.DisableInitialHostLookup = 1, true
		config.Events.DisableNodeStatusEvents, config.Events.DisableTopologyEvents, config.Events.DisableSchemaEvents = true, true, true
	}
	return &cassandra{config: config, ring: ring, reads: consistencies[o.consistency]}, nil
}

func (t *cassandra) connect(context.Context) (err error) {
	if t.session, err = t.config.CreateSession(); err != nil {
		return fmt.Errorf("cassandra at %v: %w", t.config.Hosts, err)
	}
	return nil
}

func (t *cassandra) setup(ctx context.Context) error {
	for _, statement := range []string{fmt.Sprintf(cqlKeyspace, t.ring), cqlTable} {
		if err := t.session.Query(statement).ExecContext(ctx); err != nil {
			return fmt.Errorf("cassandra: %s: %w", statement, err)
		}
	}
	return nil
}

func (t *cassandra) do(ctx context.Context, _ int, c call) outcome {
	key := string(c[1])
	o := outcome{txID: key}
	switch string(c[0]) {
	case "get":
		_, err := t.get(ctx, key, t.reads)
		return cqlOutcome(outcome{}, err)
	case "put":
		return putOutcome(o, t.session.Query(cqlPut, key, c[2]).ExecContext(ctx))
	case "insert":
		return t.compareAndSet(ctx, o, nil, c[2], t.session.Query(cqlInsert, key, c[2]))
	case "update":
		old, err := t.get(ctx, key, gocql.Quorum)
		if err != nil {
			return cqlOutcome(o, err)
		}
		return t.compareAndSet(ctx, o, old, c[2], t.session.Query(cqlUpdate, c[2], key, old))
	}
	o.failedAt, o.code, o.detail = stageOperation, "CLIENT", "there is no statement for "+string(c[0])
	return o
}

// get reads a value; one that is not there is empty.
func (t *cassandra) get(ctx context.Context, key string, level gocql.Consistency) (value []byte, err error) {
	err = t.session.Query(cqlGet, key).Consistency(level).ScanContext(ctx, &value)
	if errors.Is(err, gocql.ErrNotFound) {
		err = nil
	}
	return value, err
}

// compareAndSet counts a write as what became of it: where its answer was lost, the ring is asked. Old is the value
// that was there before; empty: none.
func (t *cassandra) compareAndSet(ctx context.Context, o outcome, old, value []byte, q *gocql.Query) outcome {
	began := time.Now()
	applied, err := q.MapScanCASContext(ctx, map[string]any{})
	if err != nil && answerLost(err) {
		o.lost = true
		applied, err = resolve(ctx, began.Add(coordinatorPatience), old, value, func(ctx context.Context) ([]byte, error) {
			return t.get(ctx, o.txID, gocql.Serial)
		})
		if err != nil {
			return o.open(err.Error())
		}
	}
	if err == nil && !applied {
		o.failedAt, o.code = stageCommit, "NOT_APPLIED"
		return o
	}
	return cqlOutcome(o, err)
}

// resolve finds out whether a write took place, by a serial read: that first ends whatever is under way for the key. Until
// settled the write's coordinator may begin anew, so that the old value says nothing before.
func resolve(
	ctx context.Context, settled time.Time, old, value []byte, read func(context.Context) ([]byte, error),
) (applied bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolvePatience)
	defer cancel()
	for {
		asked, pause := time.Now(), resolvePause
		found, err := read(ctx)
		if err == nil {
			applied, err = tookPlace(found, old, value)
			if applied || err != nil || !asked.Before(settled) {
				return applied, err
			}
			err, pause = errUnsettled, time.Until(settled)
		}
		if !sleep(ctx, pause) {
			return false, err
		}
	}
}

// errUnsettled is the end of a search in which nothing was found, and something may still come.
var errUnsettled = errors.New("the write has not taken place yet")

// errOverwritten says that a value does not tell whether a write took place before another client's, or failed for it.
var errOverwritten = errors.New("another client has written the key since")

// tookPlace judges a write by the value that is found. No two updates have the same one: see options.checkUnique.
func tookPlace(found, old, value []byte) (bool, error) {
	switch {
	case bytes.Equal(found, value):
		return true, nil
	case bytes.Equal(found, old):
		return false, nil
	}
	return false, errOverwritten
}

// answerLost tells an error that leaves open whether the write took place from one that says that it did not. Whatever
// breaks a connection, from a reset to a missed heartbeat, is handed as it is to all requests on it.
func answerLost(err error) bool {
	var timeout *gocql.RequestErrWriteTimeout
	var unknown *gocql.RequestErrCASWriteUnknown
	var failure *gocql.RequestErrWriteFailure
	var told gocql.RequestError
	if errors.As(err, &timeout) || errors.As(err, &unknown) || errors.As(err, &failure) {
		return true
	}
	return !errors.As(err, &told) && !errors.Is(err, gocql.ErrNoConnections) && !errors.Is(err, gocql.ErrNoStreams)
}

// putOutcome is of a write that no read finds out about: it may take place after any.
func putOutcome(o outcome, err error) outcome {
	if err != nil && answerLost(err) {
		return o.open(err.Error())
	}
	return cqlOutcome(o, err)
}

func cqlOutcome(o outcome, err error) outcome {
	if err == nil {
		return o
	}
	o.failedAt, o.code, o.detail = stageOperation, "ERROR", err.Error()
	var told gocql.RequestError
	switch {
	case errors.As(err, &told):
		o.code = fmt.Sprintf("ERROR_%04X", told.Code())
	case errors.Is(err, gocql.ErrNoConnections), errors.Is(err, gocql.ErrNoStreams), errors.Is(err, gocql.ErrConnectionClosed):
		o.code = "UNAVAILABLE"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, gocql.ErrTimeoutNoResponse):
		o.code = "DEADLINE_EXCEEDED"
	}
	return o
}

func (t *cassandra) close() error {
	if t.session != nil {
		t.session.Close()
	}
	return nil
}
