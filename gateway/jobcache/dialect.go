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
	// name says which, for the log, without what is secret.
	name() string
	// open makes the handle; it need not connect.
	open() (*sql.DB, error)
	create() []string
	// upsert takes a row.
	upsert() string
	// prune takes the time before which rows are removed, and how many at most.
	prune() string
	// harmless is the text of an error without what is secret.
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
		// Its text may quote the DSN.
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
	// What goes wrong comes back as an error; the driver's own log would say it twice.
	c.Logger = mysql.Logger(&mysql.NopLogger{})
	c.MultiStatements, c.AllowAllFiles = false, false
	return mariadb{c}, nil
}

// sqlite is a file.
type sqlite struct{ path string }

func (s sqlite) name() string { return s.path }

func (s sqlite) harmless(err error) string { return err.Error() }

func (s sqlite) open() (*sql.DB, error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, err
	}
	// SQLite would make a file that others can read. It holds the jobs of all tenants.
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	// The log beside the file lets others read while one writes; a crash of the machine may cost the newest rows.
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

// mariadb is a server: MariaDB or MySQL.
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

// upsert asks for each column whether the row is replaced. What is assigned first is seen by what comes after: those that decide come last.
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

// assign sets every column but the key.
func assign(value func(column string) string) string {
	all := make([]string, 0, len(columns))
	for _, column := range columns[1:] {
		all = append(all, column+" = "+value(column))
	}
	return strings.Join(all, ", ")
}
