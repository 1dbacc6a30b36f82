package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

// sqlite makes a blocking call for each write, inside a transaction of the database for each of a client's.
type sqlite struct {
	db            *sql.DB
	conn          *sql.Conn
	begin, commit *sql.Stmt
	write         *sql.Stmt
}

// pragmas: nothing is durable in memory either, so that the file is never synced.
const pragmas = "?_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)&_pragma=locking_mode(EXCLUSIVE)"

func openSQLite(folder string, records, value int) (_ *sqlite, err error) {
	s := &sqlite{}
	if s.db, err = sql.Open("sqlite", "file:"+filepath.Join(folder, "table.db")+pragmas); err != nil {
		return nil, err
	}
	ctx := context.Background()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("sqlite in %s: %w", folder, err), s.Close())
		}
	}()
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return nil, err
	}
	fill := fmt.Sprintf("WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i+1 FROM n WHERE i+1 < %d) INSERT INTO kv SELECT i, zeroblob(%d) FROM n", records, value)
	for _, statement := range []string{"CREATE TABLE kv (k INTEGER PRIMARY KEY, v BLOB NOT NULL)", fill} {
		if _, err = s.conn.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	for text, to := range map[string]**sql.Stmt{
		"BEGIN": &s.begin, "COMMIT": &s.commit, "UPDATE kv SET v = ?2 WHERE k = ?1": &s.write,
	} {
		if *to, err = s.conn.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sqlite) Begin() error {
	_, err := s.begin.Exec()
	return err
}

func (s *sqlite) Write(key uint64, value []byte) error {
	_, err := s.write.Exec(int64(key), value)
	return err
}

func (s *sqlite) Commit() error {
	_, err := s.commit.Exec()
	return err
}

func (s *sqlite) Close() error {
	var errs []error
	for _, statement := range []*sql.Stmt{s.begin, s.write, s.commit} {
		if statement != nil {
			errs = append(errs, statement.Close())
		}
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(append(errs, s.db.Close())...)
}

func (s *sqlite) read(key uint64) (value []byte) {
	if s.conn.QueryRowContext(context.Background(), "SELECT v FROM kv WHERE k = ?", int64(key)).Scan(&value) != nil {
		return nil
	}
	return value
}
