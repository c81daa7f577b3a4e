package jobcache

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"time"
)

// recorder is a database in memory that notes what is written to it.
type recorder struct {
	mu     sync.Mutex
	table  bool
	broken error // what every statement says
	holds  bool  // every statement waits until its context ends
	tried  []time.Time
	texts  []string
	rows   [][]driver.Value // in the order of their commits
	pruned [][]driver.Value
	open   int // connections
}

func (r *recorder) database() database { return database{r, "recorder", "hunter2"} }

func (r *recorder) Driver() driver.Driver { return nil }

func (r *recorder) Connect(context.Context) (driver.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, time.Now())
	if r.broken != nil {
		return nil, r.broken
	}
	r.open++
	return &connection{recorder: r}, nil
}

type connection struct {
	*recorder
	rows, pruned [][]driver.Value // not committed
}

func (c *connection) Prepare(text string) (driver.Stmt, error) { return &statement{c, text}, nil }
func (c *connection) Begin() (driver.Tx, error)                { return c, nil }

func (c *connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	return nil
}

func (c *connection) Commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	c.recorder.rows = append(c.recorder.rows, c.rows...)
	c.recorder.pruned = append(c.recorder.pruned, c.pruned...)
	c.rows, c.pruned = nil, nil
	return nil
}

func (c *connection) Rollback() error {
	c.rows, c.pruned = nil, nil
	return nil
}

type statement struct {
	*connection
	text string
}

func (s *statement) Close() error  { return nil }
func (s *statement) NumInput() int { return strings.Count(s.text, "?") }

func (s *statement) Query([]driver.Value) (driver.Rows, error) {
	return nil, errors.New("nobody reads")
}

func (s *statement) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("without a context")
}

func (s *statement) ExecContext(ctx context.Context, named []driver.NamedValue) (driver.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, s.text)
	if s.holds {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	values := make([]driver.Value, len(named))
	for i, v := range named {
		values[i] = v.Value
	}
	switch {
	case s.broken != nil:
		return nil, s.broken
	case strings.HasPrefix(s.text, "CREATE TABLE "):
		s.table = true
	case !s.table:
		return nil, errors.New("there is no table")
	case strings.HasPrefix(s.text, "INSERT "):
		s.connection.rows = append(s.connection.rows, values)
	case strings.HasPrefix(s.text, "DELETE "):
		s.connection.pruned = append(s.connection.pruned, values)
	}
	return driver.RowsAffected(1), nil
}
