package jobcache

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// dialect is a kind of database.
type dialect interface {
	// name identifies the database in the log, without secrets.
	name() string
	// open returns a handle; it need not connect.
	open() (*sql.DB, error)
	create() []string
	// upsert returns the statement that inserts or updates a row.
	upsert() string
	// prune returns the statement that removes old rows. Its parameters are the time before which rows are removed, and
	// their maximum number.
	prune() string
	// harmless returns the text of an error without secrets.
	harmless(error) string
}

func dialectOf(config Config) (dialect, error) {
	dsn, isMySQL := strings.CutPrefix(config.Database, "mysql:")
	if !isMySQL {
		if config.Database == "" {
			return nil, errors.New("job_cache: give the path of a file, or mysql:DSN")
		}
		path, err := filepath.Abs(strings.TrimPrefix(config.Database, "sqlite:"))
		if err != nil {
			return nil, fmt.Errorf("job_cache: %w", err)
		}
		return sqlite{path}, nil
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		// The text of the error may quote the DSN.
		return nil, errors.New("job_cache: what follows mysql: is no DSN of the form user:password@tcp(host:3306)/database")
	}
	if c.DBName == "" {
		return nil, errors.New("job_cache: the DSN names no database")
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.ReadTimeout == 0 {
		c.ReadTimeout = 5 * time.Second
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 5 * time.Second
	}
	// The driver also returns what it logs as errors; its log would repeat them.
	c.Logger = mysql.Logger(&mysql.NopLogger{})
	c.MultiStatements, c.AllowAllFiles = false, false
	return mariadb{c}, nil
}

// sqlite is an SQLite file.
type sqlite struct{ path string }

func (s sqlite) name() string { return s.path }

func (s sqlite) harmless(err error) string { return err.Error() }

func (s sqlite) open() (*sql.DB, error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, err
	}
	// Make the file here, with the jobs of all tenants in it: SQLite would make one that other users can read.
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	// With a write-ahead log, others can read during a write. A crash of the machine may lose the newest rows.
	query := url.Values{"_pragma": {"busy_timeout(1000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: s.path, RawQuery: query.Encode()}).String())
}

func (s sqlite) create() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS ` + table + ` (
			job_id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, priority INTEGER NOT NULL,
			training_config TEXT, data_config TEXT, resource_config TEXT, output_config TEXT, scheduling_config TEXT,
			error_type TEXT, error_message TEXT, created_at TEXT, started_at TEXT, finished_at TEXT, updated_at TEXT,
			revision INTEGER NOT NULL, cached_at TEXT NOT NULL)`,
		`CREATE INDEX IF NOT EXISTS ` + table + `_tenant ON ` + table + ` (tenant_id, created_at)`,
		`CREATE INDEX IF NOT EXISTS ` + table + `_cached ON ` + table + ` (cached_at)`,
	}
}

func (s sqlite) upsert() string {
	return insert() + " ON CONFLICT (job_id) DO UPDATE SET " + assign(func(column string) string { return "excluded." + column }) +
		fmt.Sprintf(" WHERE excluded.revision >= %[1]s.revision OR %[1]s.cached_at < strftime('%%Y-%%m-%%d %%H:%%M:%%f', excluded.cached_at, '-%[2]d seconds')",
			table, int(staleAfter.Seconds()))
}

func (s sqlite) prune() string {
	return "DELETE FROM " + table + " WHERE job_id IN (SELECT job_id FROM " + table + " WHERE cached_at < ? LIMIT ?)"
}

// mariadb is a server of MariaDB or MySQL.
type mariadb struct{ config *mysql.Config }

func (m mariadb) name() string {
	return fmt.Sprintf("mysql:%s(%s)/%s", m.config.Net, m.config.Addr, m.config.DBName)
}

func (m mariadb) harmless(err error) string {
	if m.config.Passwd == "" {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), m.config.Passwd, "...")
}

func (m mariadb) open() (*sql.DB, error) {
	connector, err := mysql.NewConnector(m.config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (m mariadb) create() []string {
	return []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (
		job_id VARCHAR(64) NOT NULL PRIMARY KEY, tenant_id VARCHAR(256) NOT NULL, name TEXT NOT NULL, status VARCHAR(32) NOT NULL, priority INT NOT NULL,
		training_config JSON, data_config JSON, resource_config JSON, output_config JSON, scheduling_config JSON,
		error_type VARCHAR(32), error_message MEDIUMTEXT,
		created_at DATETIME(6), started_at DATETIME(6), finished_at DATETIME(6), updated_at DATETIME(6),
		revision BIGINT NOT NULL, cached_at DATETIME(6) NOT NULL,
		INDEX ` + table + `_tenant (tenant_id, created_at), INDEX ` + table + `_cached (cached_at)
	) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`}
}

// upsert evaluates, for each column, whether the row is replaced. An assignment sees the results of the earlier ones,
// so the columns that decide come last.
func (m mariadb) upsert() string {
	replaced := fmt.Sprintf("(VALUES(revision) >= revision OR cached_at < VALUES(cached_at) - INTERVAL %d SECOND)", int(staleAfter.Seconds()))
	return insert() + " ON DUPLICATE KEY UPDATE " + assign(func(column string) string {
		return "IF(" + replaced + ", VALUES(" + column + "), " + column + ")"
	})
}

func (m mariadb) prune() string { return "DELETE FROM " + table + " WHERE cached_at < ? LIMIT ?" }

func insert() string {
	return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")"
}

// assign returns assignments of every column but the key.
func assign(value func(column string) string) string {
	all := make([]string, 0, len(columns))
	for _, column := range columns[1:] {
		all = append(all, column+" = "+value(column))
	}
	return strings.Join(all, ", ")
}
