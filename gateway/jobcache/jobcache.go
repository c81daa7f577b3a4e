// Package jobcache keeps a copy of jobs in a table of a database, for
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

// Config configures a Cache.
type Config struct {
	// Database is the path of an SQLite file, or mysql:DSN with a DSN of go-sql-driver
	// (user:password@tcp(host:3306)/database).
	Database string
	// Keep is how long the row of a job that was not listed again is kept; default 30 days.
	Keep time.Duration
	// WriteTimeout limits a write; default 5 s.
	WriteTimeout time.Duration
	// Encode appends a message as the REST interface shows it.
	Encode func([]byte, proto.Message) []byte
	Logger *slog.Logger
	// Registry is the registry for the metrics.
	Registry prometheus.Registerer
}

const (
	// maxQueued limits the answers that wait to be written, in bytes of their encoding.
	maxQueued = 16 << 20
	// maxBatches limits the number of answers that wait.
	maxBatches = 256
	// rewriteAfter is how long a row is not written again while its job does not change.
	rewriteAfter = time.Minute
	// maxKnown limits how many jobs are remembered for that.
	maxKnown = 20_000
	// staleAfter is the age from which a row is replaced even by a state that looks older: the cluster was restored
	// from a snapshot.
	staleAfter = 10 * time.Minute
	// minPause is the first pause after a failure, and maxPause the longest one.
	minPause = time.Second
	maxPause = time.Minute
	// pruneEvery is how often old rows are removed, and pruneRows how many at most.
	pruneEvery = 10 * time.Minute
	pruneRows  = 1000
)

// Cache writes copies of jobs to a database. It is safe for concurrent use. A nil Cache does nothing.
type Cache struct {
	config  Config
	dialect dialect
	metrics *metrics

	queue  chan batch
	queued atomic.Int64

	// The fields below belong to the goroutine that writes.
	db      *sql.DB
	ready   bool // the table exists
	known   map[string]seen
	pause   time.Duration // 0: the last write succeeded
	until   time.Time     // no write is tried before
	pruneAt time.Time

	life context.Context
	end  context.CancelFunc // cancels writes in progress
	stop chan struct{}
	done chan struct{}
}

// batch holds the jobs of one answer.
type batch struct {
	jobs  []*v1.Job
	bytes int64
}

// seen is the last written state of a job.
type seen struct {
	revision uint64
	at       time.Time
}

// Check returns an error if the configuration is invalid.
func Check(config Config) error {
	if config.Keep < 0 {
		return errors.New("job_cache_keep must be more than 0")
	}
	_, err := dialectOf(config)
	return err
}

// Open starts a cache. It connects at the first write: a database that is down does not keep a gateway from starting.
func Open(config Config) (*Cache, error) {
	if config.Keep == 0 {
		config.Keep = 30 * 24 * time.Hour
	}
	if config.WriteTimeout == 0 {
		config.WriteTimeout = 5 * time.Second
	}
	d, err := dialectOf(config)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		config: config, dialect: d, metrics: newMetrics(config.Registry), queue: make(chan batch, maxBatches), known: map[string]seen{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(context.Background())
	go c.run()
	return c, nil
}

// Note queues jobs to be written. They must not be changed any more. bytes is their approximate size.
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

// Close writes the queued jobs, until ctx ends, and closes the cache.
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

// take writes the jobs of a batch that have changed.
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

// failed records that a write failed, and pauses for a while.
func (c *Cache) failed(rows int, err error) {
	c.metrics.rows.WithLabelValues("failed").Add(float64(rows))
	c.metrics.failing.Set(1)
	if c.pause == 0 && c.life.Err() == nil {
		c.config.Logger.LogAttrs(c.life, slog.LevelWarn, "the job cache cannot be written; requests go on without it",
			slog.String("database", c.dialect.name()), slog.String("error", c.dialect.harmless(err)))
	}
	c.pause = min(max(2*c.pause, minPause), maxPause)
	c.until = time.Now().Add(c.pause)
	// When it works again, it may be another table or another database.
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
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	statement, err := tx.PrepareContext(ctx, c.dialect.upsert())
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
		if _, err := tx.ExecContext(ctx, c.dialect.prune(), stamp(now.Add(-c.config.Keep)), pruneRows); err != nil {
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
		db, err := c.dialect.open()
		if err != nil {
			return fmt.Errorf("open the database: %w", err)
		}
		db.SetMaxOpenConns(1)
		c.db = db
	}
	for _, statement := range c.dialect.create() {
		if _, err := c.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the table %s: %w", table, err)
		}
	}
	c.ready = true
	return nil
}
