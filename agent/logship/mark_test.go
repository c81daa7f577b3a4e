package logship

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A task may put anything in place of the mark. Its log is archived all the same, and its directory can be removed
// then.
func TestShip_whatIsInThePlaceOfTheMark(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(`{"final": true}`), 0o600))
	for what, put := range map[string]func(name string) error{
		"garbage":     func(name string) error { return os.WriteFile(name, []byte("{"), 0o600) },
		"a link":      func(name string) error { return os.Symlink(secret, name) },
		"a hard link": func(name string) error { return os.Link(secret, name) },
		"a FIFO":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a file without end": func(name string) error {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(name, 30<<30)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nil)
				require.NoError(t, os.WriteFile(filepath.Join(n.dir, "metrics.jsonl"), []byte("{\"step\": 1}\n"), 0o600))
				require.NoError(t, put(filepath.Join(n.dir, markFile)))
				n.start()
				defer func() { n.stop() }()
				n.end()
				time.Sleep(time.Minute)
				require.NotNil(t, n.manifest())
				require.True(t, n.manifest().Final)
				text, err := os.ReadFile(secret)
				require.NoError(t, err)
				require.Equal(t, `{"final": true}`, string(text))
			})
		})
	}
}
