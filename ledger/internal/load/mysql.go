package load

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/semaphore"
)

// sqlSchema is what a chaincode is in MySQL and MariaDB: tables, and a statement for each function.
type sqlSchema struct {
	tables     []string
	statements map[string]string
}

var sqlSchemas = map[string]sqlSchema{
	"kv": {
		tables: []string{"CREATE TABLE IF NOT EXISTS kv (k VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB"},
		statements: map[string]string{
			"insert": "INSERT INTO kv (k, v) VALUES (?, ?)",
			"put":    "INSERT INTO kv (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)",
			"update": "INSERT INTO kv (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)",
			"get":    "SELECT v FROM kv WHERE k = ?",
		},
	},
	"scm": scmSQL,
}

// codeExists is of what is there already.
const codeExists = "EXISTS"

// sqlRefusals are errors by which a server refuses one transaction beside others.
var sqlRefusals = map[uint16]string{1213: "DEADLOCK", 1205: "LOCK_TIMEOUT", 1062: codeExists, 1644: "REFUSED"}

// mysqlServer is one server, by a pool of connections.
type mysqlServer struct {
	node   endpoint
	schema sqlSchema
	reads  map[string]bool
	db     *sql.DB
	// places are the pool's connections. An operation waits for one here, where it is known that nothing was sent.
	places *semaphore.Weighted
	// prepared statements by function; each connection prepares them once.
	prepared map[string]*sql.Stmt
}

func newMySQL(system string, node endpoint, o *options) (*mysqlServer, error) {
	schema, ok := sqlSchemas[o.chaincode]
	if !ok {
		return nil, unknownSchema(system, o.chaincode, strings.Join(slices.Sorted(maps.Keys(sqlSchemas)), ", "))
	}
	config := mysql.NewConfig()
	config.User, config.DBName, config.Net, config.Addr = "qioi", "qioi", "tcp", node.address
	config.Timeout = connectTimeout
	config.Logger = &mysql.NopLogger{} // what a driver has to say is in an operation's error
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.name, err)
	}
	db := sql.OpenDB(connector)
	connections := pool
	if o.rate == 0 {
		connections = min(o.clients, maxConnections)
	}
	db.SetMaxOpenConns(connections)
	// A connection that ends after every operation would be made anew all the time.
	db.SetMaxIdleConns(connections)
	return &mysqlServer{
		node: node, schema: schema, reads: readers[o.chaincode], db: db,
		places: semaphore.NewWeighted(int64(connections)), prepared: map[string]*sql.Stmt{},
	}, nil
}

const (
	// maxConnections is what a lab's server accepts, less some for others.
	maxConnections = 1900
	// pool is what an open load's operations share, as an application's do. With a connection for each operation of a
	// backlog a server is busy with its 1,900 threads, and does not come out of it.
	pool = 128
)

func (t *mysqlServer) connect(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := t.db.PingContext(limited); err != nil {
		return fmt.Errorf("node %s at %s: %w", t.node.name, t.node.address, err)
	}
	return nil
}

// setup makes the tables, and prepares what is sent often. A target for one operation has no setup, and prepares
// nothing beforehand.
func (t *mysqlServer) setup(ctx context.Context) error {
	for _, statement := range t.schema.tables {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("node %s: %w in: %s", t.node.name, err, statement)
		}
	}
	for function, statement := range t.schema.statements {
		prepared, err := t.db.PrepareContext(ctx, statement)
		if err != nil {
			return fmt.Errorf("node %s: %w in: %s", t.node.name, err, statement)
		}
		t.prepared[function] = prepared
	}
	return nil
}

func (t *mysqlServer) do(ctx context.Context, _ int, c call) outcome {
	_, o := t.ask(ctx, c)
	return o
}

// ask gives the answer too: the first column of the first row, if any.
func (t *mysqlServer) ask(ctx context.Context, c call) (answer []byte, o outcome) {
	function, arguments := string(c[0]), make([]any, len(c)-1)
	for i, a := range c[1:] {
		arguments[i] = a
	}
	if !t.reads[function] {
		o.txID = function
		if len(c) > 1 {
			o.txID = string(c[1])
		}
	}
	err := t.places.Acquire(ctx, 1)
	if err != nil {
		o.failedAt, o.code, o.detail = stageOperation, "DEADLINE_EXCEEDED", "no connection was free: "+err.Error()
		return nil, o
	}
	defer t.places.Release(1)
	var rows *sql.Rows
	if prepared := t.prepared[function]; prepared != nil {
		rows, err = prepared.QueryContext(ctx, arguments...)
	} else {
		rows, err = t.db.QueryContext(ctx, t.schema.statements[function], arguments...)
	}
	if err == nil {
		answer, err = firstOf(rows)
	}
	return answer, t.judge(o, function, err)
}

func firstOf(rows *sql.Rows) (answer []byte, err error) {
	if columns, _ := rows.Columns(); len(columns) > 0 && rows.Next() {
		err = rows.Scan(&answer)
	}
	return answer, errors.Join(err, rows.Close(), rows.Err())
}

// judge says what an error means: refused, failed, or a write of which nobody knows.
func (t *mysqlServer) judge(o outcome, function string, err error) outcome {
	var told *mysql.MySQLError
	var network net.Error
	var dialled *net.OpError
	switch {
	case err == nil:
		return o
	case errors.As(err, &told):
		o.failedAt, o.code, o.detail = stageOperation, fmt.Sprintf("ERROR_%d", told.Number), told.Message
		if code := sqlRefusals[told.Number]; code != "" {
			o.failedAt, o.code = stageCommit, code
		}
		return o
	case errors.Is(err, driver.ErrBadConn), errors.As(err, &dialled) && dialled.Op == "dial": // nothing was sent
		o.failedAt, o.code, o.detail = stageOperation, "UNAVAILABLE", err.Error()
		return o
	}
	o.failedAt, o.code, o.detail = stageOperation, "DEADLINE_EXCEEDED", err.Error()
	if errors.Is(err, mysql.ErrInvalidConn) || errors.As(err, &network) && !network.Timeout() {
		o.code = "UNAVAILABLE"
	}
	if !t.reads[function] {
		return o.open(o.detail)
	}
	return o
}

func (t *mysqlServer) close() error {
	for _, prepared := range t.prepared {
		_ = prepared.Close() // the connections end with it
	}
	return t.db.Close()
}
