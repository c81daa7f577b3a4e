// Package jobcache keeps a copy of jobs in a table of a database (MariaDB or MySQL), for
// dashboards that read SQL.
//
// Contract: Note takes jobs from an answer of a coordinator, and returns at once. They are written to the table
// mod_scaimind_jobs some time later, or not at all: the copy is never authoritative, and Mind itself never reads it.
//
// Guarantees: Note neither waits nor fails, whatever the database does. The jobs that wait to be written are bounded in
// bytes; jobs that do not fit are dropped. A row is never replaced by an older state of its job, unless it was not
// touched for so long that the job's history itself must have been replaced.
//
// Not guaranteed: that every job is in the table, that a row is current, or that the row of a job that was removed from
// the cluster disappears soon: rows of jobs that were not listed again are removed after Config.Keep.
package jobcache

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Config says where the copy is kept.
type Config struct {
	// Database is mysql: and a DSN of go-sql-driver (user:password@tcp(host:3306)/database).
	Database string
	// Keep is how long a row stays that nobody listed again; default 30 days.
	Keep time.Duration
	// WriteTimeout bounds a write; default 5 s.
	WriteTimeout time.Duration
	// Encode appends a message as the REST interface shows it.
	Encode func([]byte, proto.Message) []byte
	Logger *slog.Logger
	// Registry takes the metrics.
	Registry prometheus.Registerer
}

const (
	// maxQueued bounds the answers, in bytes as they were sent, that wait to be written.
	maxQueued = 16 << 20
	// maxBatches bounds how many they are.
	maxBatches = 256
	// A row that was written is left alone for so long while its job does not change.
	rewriteAfter = time.Minute
	// maxKnown bounds of how many jobs that is remembered.
	maxKnown = 20_000
	// A row that was not touched for so long is replaced even by a state that looks older: the cluster was restored from a
	// snapshot.
	staleAfter = 10 * time.Minute
	// After a failure nothing is tried for so long, at first and at most.
	minPause = time.Second
	maxPause = time.Minute
	// Rows are looked at for removal so often, and so many are removed at once.
	pruneEvery = 10 * time.Minute
	pruneRows  = 1000
)

// Cache is safe for concurrent use. A nil Cache keeps nothing.
type Cache struct {
	config   Config
	database database
	metrics  *metrics

	queue  chan batch
	queued atomic.Int64

	// The rest belongs to the goroutine that writes.
	db      *sql.DB
	ready   bool // the table is there
	known   map[string]seen
	pause   time.Duration // 0: the last write went well
	until   time.Time     // nothing is tried before
	pruneAt time.Time

	life context.Context
	end  context.CancelFunc // of writes that are under way
	stop chan struct{}
	done chan struct{}
}

// batch is the jobs of one answer.
type batch struct {
	jobs  []*v1.Job
	bytes int64
}

// seen is the state of a job that was written last, and when.
type seen struct {
	revision uint64
	at       time.Time
}

// Check says what is wrong with the configuration.
func Check(config Config) error {
	if config.Keep < 0 {
		return errors.New("job_cache_keep must be more than 0")
	}
	_, err := parse(config.Database)
	return err
}

// Open starts a cache. It connects when there is something to write: a database that is down keeps nobody from starting.
func Open(config Config) (*Cache, error) {
	d, err := parse(config.Database)
	if err != nil {
		return nil, err
	}
	return start(config, d), nil
}

func start(config Config, d database) *Cache {
	if config.Keep == 0 {
		config.Keep = 30 * 24 * time.Hour
	}
	if config.WriteTimeout == 0 {
		config.WriteTimeout = 5 * time.Second
	}
	c := &Cache{
		config: config, database: d, metrics: newMetrics(config.Registry), queue: make(chan batch, maxBatches), known: map[string]seen{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(context.Background())
	go c.run()
	return c
}

// Note has jobs written when there is time for it. Nobody may change them any more. bytes is about what they weigh.
func (c *Cache) Note(jobs []*v1.Job, bytes int) {
	if c == nil || len(jobs) == 0 {
		return
	}
	b := batch{jobs, int64(bytes)}
	if c.queued.Add(b.bytes) <= maxQueued {
		select {
		case c.queue <- b:
			return
		default:
		}
	}
	c.queued.Add(-b.bytes)
	c.metrics.rows.WithLabelValues("dropped").Add(float64(len(jobs)))
}

// Close writes what is waiting, as far as ctx allows, and ends the cache.
func (c *Cache) Close(ctx context.Context) {
	if c == nil {
		return
	}
	defer context.AfterFunc(ctx, c.end)()
	close(c.stop)
	<-c.done
	c.end()
}

func (c *Cache) run() {
	defer close(c.done)
	defer c.disconnect()
	for {
		select {
		case b := <-c.queue:
			c.take(b)
		case <-c.stop:
			for c.life.Err() == nil {
				select {
				case b := <-c.queue:
					c.take(b)
				default:
					return
				}
			}
			return
		}
	}
}

// take writes what of a batch is news.
func (c *Cache) take(b batch) {
	defer c.queued.Add(-b.bytes)
	now := time.Now()
	if now.Before(c.until) {
		c.metrics.rows.WithLabelValues("dropped").Add(float64(len(b.jobs)))
		return
	}
	var news []*v1.Job
	for _, job := range b.jobs {
		if k, ok := c.known[job.GetJobId()]; !ok || k.revision < job.GetRevision() || now.Sub(k.at) >= rewriteAfter {
			news = append(news, job)
		}
	}
	c.metrics.rows.WithLabelValues("unchanged").Add(float64(len(b.jobs) - len(news)))
	if len(news) == 0 {
		return
	}
	err := c.write(news, now)
	c.metrics.seconds.Observe(time.Since(now).Seconds())
	if err != nil {
		c.failed(len(news), err)
		return
	}
	c.metrics.rows.WithLabelValues("written").Add(float64(len(news)))
	c.went(news, now)
}

func (c *Cache) went(jobs []*v1.Job, now time.Time) {
	if c.pause != 0 {
		c.config.Logger.LogAttrs(c.life, slog.LevelInfo, "the job cache is written again")
	}
	c.pause, c.until = 0, time.Time{}
	c.metrics.failing.Set(0)
	if len(c.known)+len(jobs) > maxKnown {
		clear(c.known)
	}
	for _, job := range jobs {
		c.known[job.GetJobId()] = seen{job.GetRevision(), now}
	}
}

// failed notes that the database does not take rows, and leaves it alone for a while.
func (c *Cache) failed(rows int, err error) {
	c.metrics.rows.WithLabelValues("failed").Add(float64(rows))
	c.metrics.failing.Set(1)
	if c.pause == 0 && c.life.Err() == nil {
		c.config.Logger.LogAttrs(c.life, slog.LevelWarn, "the job cache cannot be written; requests go on without it",
			slog.String("database", c.database.name), slog.String("error", c.database.harmless(err)))
	}
	c.pause = min(max(2*c.pause, minPause), maxPause)
	c.until = time.Now().Add(c.pause)
	// The table, or the whole database, may be another one when it is back.
	c.disconnect()
	clear(c.known)
}

func (c *Cache) disconnect() {
	if c.db != nil {
		_ = c.db.Close()
	}
	c.db, c.ready = nil, false
}

// write puts jobs into the table, all or none.
func (c *Cache) write(jobs []*v1.Job, now time.Time) error {
	ctx, cancel := context.WithTimeout(c.life, c.config.WriteTimeout)
	defer cancel()
	if err := c.connect(ctx); err != nil {
		return err
	}
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to write jobs: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // of what was committed it is nothing
	statement, err := tx.PrepareContext(ctx, upsert())
	if err != nil {
		return fmt.Errorf("prepare to write jobs: %w", err)
	}
	defer statement.Close()
	for _, job := range jobs {
		if _, err := statement.ExecContext(ctx, c.row(job, now)...); err != nil {
			return fmt.Errorf("write a job: %w", err)
		}
	}
	if now.After(c.pruneAt) {
		if _, err := tx.ExecContext(ctx, prune, stamp(now.Add(-c.config.Keep)), pruneRows); err != nil {
			return fmt.Errorf("remove old rows: %w", err)
		}
		c.pruneAt = now.Add(pruneEvery)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("write jobs: %w", err)
	}
	return nil
}

// connect opens the database and makes the table, unless that is done.
func (c *Cache) connect(ctx context.Context) error {
	if c.ready {
		return nil
	}
	if c.db == nil {
		c.db = sql.OpenDB(c.database)
		c.db.SetMaxOpenConns(1)
	}
	if _, err := c.db.ExecContext(ctx, createTable); err != nil {
		return fmt.Errorf("make the table %s: %w", table, err)
	}
	c.ready = true
	return nil
}
