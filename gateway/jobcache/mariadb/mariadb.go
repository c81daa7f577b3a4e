// Package mariadb starts a real MariaDB for tests. The server comes from the system (Debian's mariadb-server); tests that need
// it are skipped where it is not installed, and fail there if MIND_MARIADB=required, as it is in .ci/run.
package mariadb

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

const longstop = time.Minute

// Server is one server for any number of tests, one after the other. It starts with the first database.
type Server struct {
	started   bool
	err       error // it did not start
	dir       string
	process   *exec.Cmd
	databases int
}

// Database makes an empty database. It returns its address, as job_cache takes it, with a user who may do everything in it and has
// the password hunter2, and a handle of the server's administrator. Without a server it skips the test.
func (s *Server) Database(t testing.TB) (address string, admin *sql.DB) {
	t.Helper()
	if !s.started {
		s.started, s.err = true, s.start()
	}
	if s.err != nil {
		if os.Getenv("MIND_MARIADB") == "required" {
			t.Fatal(s.err)
		}
		t.Skip(s.err)
	}
	s.databases++
	name := fmt.Sprint("mind", s.databases)
	root := s.connect(t, "")
	for _, statement := range []string{
		"CREATE DATABASE " + name, "CREATE USER " + name + " IDENTIFIED BY 'hunter2'", "GRANT ALL ON " + name + ".* TO " + name,
	} {
		if _, err := root.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return "mysql:" + name + ":hunter2@unix(" + s.socket() + ")/" + name, s.connect(t, name)
}

// Stop kills the server.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	*s = Server{}
}

func (s *Server) socket() string { return filepath.Join(s.dir, "s") }

func (s *Server) connect(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@unix("+s.socket()+")/"+database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// start runs a server as this user. It has a socket in a folder of its own, and no port.
func (s *Server) start() error {
	daemon, err := exec.LookPath("mariadbd")
	if err != nil {
		daemon, err = exec.LookPath("/usr/sbin/mariadbd")
	}
	install, err2 := exec.LookPath("mariadb-install-db")
	if err != nil || err2 != nil {
		return errors.New("no MariaDB: install the package mariadb-server")
	}
	// The path of a socket must be short, which those of tests are not.
	if s.dir, err = os.MkdirTemp("", "mdb"); err != nil {
		return fmt.Errorf("make a folder for MariaDB: %w", err)
	}
	options := []string{"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--innodb-log-file-size=8M"}
	if os.Getuid() == 0 {
		options = append(options, "--user=root")
	}
	setup := exec.Command(install, append(options, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := setup.CombinedOutput(); err != nil {
		return fmt.Errorf("set up MariaDB: %w: %s", err, out)
	}
	said, err := os.Create(filepath.Join(s.dir, "said"))
	if err != nil {
		return fmt.Errorf("make a file for what MariaDB says: %w", err)
	}
	defer said.Close()
	process := exec.Command(daemon, append(options,
		"--socket="+s.socket(), "--skip-networking", "--pid-file="+filepath.Join(s.dir, "pid"), "--tmpdir="+s.dir,
		"--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0",
	)...)
	process.Stdout, process.Stderr = said, said
	if err := process.Start(); err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	s.process = process
	return s.answers()
}

// answers waits until the server takes connections.
func (s *Server) answers() error {
	db, err := sql.Open("mysql", "root@unix("+s.socket()+")/")
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(longstop); ; time.Sleep(20 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return nil
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(filepath.Join(s.dir, "said"))
			return fmt.Errorf("MariaDB does not answer: %w; it said: %s", err, said)
		}
	}
}
