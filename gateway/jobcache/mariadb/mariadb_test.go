package mariadb

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// ending notes how a test ends.
type ending struct {
	testing.TB
	said string
}

func (v *ending) Helper() {}

func (v *ending) Skip(args ...any) { v.end("skipped: ", args) }

func (v *ending) Fatal(args ...any) { v.end("failed: ", args) }

func (v *ending) end(how string, args []any) {
	v.said = how + fmt.Sprint(args...)
	runtime.Goexit()
}

func TestDatabase_isMissingSilentlyNowhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for value, how := range map[string]string{"": "skipped: ", "required": "failed: "} {
		t.Setenv("MIND_MARIADB", value)
		v, done := &ending{}, make(chan struct{})
		go func() {
			defer close(done)
			var s Server
			defer s.Stop()
			s.Database(v)
		}()
		<-done
		require.Equal(t, how+"no MariaDB: install the package mariadb-server", v.said)
	}
}
