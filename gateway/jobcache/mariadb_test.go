package jobcache

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// server is the MariaDB server of this package's tests. Each test has its own database on it.
var server struct {
	once    sync.Once
	why     string // the reason why there is no server
	dir     string
	process *exec.Cmd
	said    bytes.Buffer
	next    int
}

func TestMain(m *testing.M) {
	os.Exit(testrun.Main(func() int {
		code := m.Run()
		if server.process != nil {
			_ = server.process.Process.Kill()
			_ = server.process.Wait()
		}
		if server.dir != "" {
			_ = os.RemoveAll(server.dir)
		}
		return code
	}))
}

// startMariaDB returns an empty database of a real server, or skips the test.
func startMariaDB(t *testing.T) (string, *sql.DB) {
	server.once.Do(func() { server.why = launchMariaDB() })
	if server.why != "" {
		t.Skip(server.why)
	}
	server.next++
	name := "mind" + string(rune('a'+server.next))
	root := connect(t, "")
	require.Eventuallyf(t, func() bool { return root.Ping() == nil }, longstop, 20*time.Millisecond, "MariaDB does not answer: %s", &server.said)
	_, err := root.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	_, err = root.ExecContext(t.Context(), "CREATE USER "+name+" IDENTIFIED BY 'hunter2'")
	require.NoError(t, err)
	_, err = root.ExecContext(t.Context(), "GRANT ALL ON "+name+".* TO "+name)
	require.NoError(t, err)
	return "mysql:" + name + ":hunter2@unix(" + filepath.Join(server.dir, "s") + ")/" + name, connect(t, name)
}

func connect(t *testing.T, database string) *sql.DB {
	db, err := sql.Open("mysql", "root@unix("+filepath.Join(server.dir, "s")+")/"+database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// launchMariaDB runs a server as this user that only this machine can reach. It returns the reason if it cannot.
func launchMariaDB() string {
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return "no MariaDB: install the package mariadb-server"
	}
	daemon, err := exec.LookPath("mariadbd")
	if err != nil {
		if daemon, err = exec.LookPath("/usr/sbin/mariadbd"); err != nil {
			return "no MariaDB: install the package mariadb-server"
		}
	}
	// The path of a socket must be short, and temporary directories of tests have long paths.
	if server.dir, err = os.MkdirTemp("", "mdb"); err != nil {
		return err.Error()
	}
	options := []string{"--no-defaults", "--datadir=" + filepath.Join(server.dir, "data")}
	if os.Getuid() == 0 {
		options = append(options, "--user=root")
	}
	setup := exec.Command(install, append(options, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M")...)
	if out, err := setup.CombinedOutput(); err != nil {
		return "MariaDB cannot be set up here: " + string(out)
	}
	server.process = exec.Command(daemon, append(options,
		"--socket="+filepath.Join(server.dir, "s"), "--skip-networking", "--pid-file="+filepath.Join(server.dir, "pid"),
		"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0",
	)...)
	server.process.Stdout, server.process.Stderr = &server.said, &server.said
	if err := server.process.Start(); err != nil {
		server.process = nil
		return "MariaDB cannot be started here: " + err.Error()
	}
	return ""
}
