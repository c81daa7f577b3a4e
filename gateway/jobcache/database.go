package jobcache

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// database is the MariaDB or MySQL that has the table.
type database struct {
	driver.Connector
	// name says which it is, for the log, without what is secret.
	name     string
	password string
}

const (
	form     = "mysql:USER:PASSWORD@tcp(HOST:3306)/DATABASE"
	leaveOut = "leave job_cache out to keep no copy"
)

// parse returns the database of a configuration. Its errors quote nothing of the address, which has a password.
func parse(address string) (database, error) {
	dsn, ok := strings.CutPrefix(address, "mysql:")
	switch {
	case address == "":
		return database{}, errors.New("job_cache: give " + form + ", or " + leaveOut)
	case !ok:
		return database{}, errors.New("job_cache: files (SQLite) are not supported: give a database of MariaDB or MySQL as " + form + ", or " + leaveOut)
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return database{}, errors.New("job_cache: what follows mysql: is no DSN of the form USER:PASSWORD@tcp(HOST:3306)/DATABASE")
	}
	if c.DBName == "" {
		return database{}, errors.New("job_cache: the DSN names no database")
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
	// Errors are returned; the driver's own log would repeat them.
	c.Logger = mysql.Logger(&mysql.NopLogger{})
	c.MultiStatements, c.AllowAllFiles = false, false
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return database{}, errors.New("job_cache: the driver refuses the DSN")
	}
	return database{connector, fmt.Sprintf("mysql:%s(%s)/%s", c.Net, c.Addr, c.DBName), c.Passwd}, nil
}

// harmless is the text of an error without the password.
func (d database) harmless(err error) string {
	if d.password == "" {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), d.password, "...")
}

const createTable = `CREATE TABLE IF NOT EXISTS ` + table + ` (
	job_id VARCHAR(64) NOT NULL PRIMARY KEY, tenant_id VARCHAR(256) NOT NULL, name TEXT NOT NULL, status VARCHAR(32) NOT NULL, priority INT NOT NULL,
	training_config JSON, data_config JSON, resource_config JSON, output_config JSON, scheduling_config JSON,
	error_type VARCHAR(32), error_message MEDIUMTEXT,
	created_at DATETIME(6), started_at DATETIME(6), finished_at DATETIME(6), updated_at DATETIME(6),
	revision BIGINT NOT NULL, cached_at DATETIME(6) NOT NULL,
	INDEX ` + table + `_tenant (tenant_id, created_at), INDEX ` + table + `_cached (cached_at)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`

// prune takes the time before which rows are removed, and how many at most.
const prune = "DELETE FROM " + table + " WHERE cached_at < ? LIMIT ?"

// upsert returns the statement that writes a row. It asks for each column whether the row is replaced. Later assignments see the
// earlier ones, so the columns that decide come last.
func upsert() string {
	replaced := fmt.Sprintf("(VALUES(revision) >= revision OR cached_at < VALUES(cached_at) - INTERVAL %d SECOND)", int(staleAfter.Seconds()))
	assign := make([]string, 0, len(columns))
	for _, column := range columns[1:] {
		assign = append(assign, column+" = IF("+replaced+", VALUES("+column+"), "+column+")")
	}
	return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")" +
		" ON DUPLICATE KEY UPDATE " + strings.Join(assign, ", ")
}
