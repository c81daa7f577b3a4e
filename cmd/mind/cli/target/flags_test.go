package target

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResolve_flagThenVariableThenDevThenContext(t *testing.T) {
	home, dev := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	for _, v := range []string{"MIND_ADDR", "MIND_TOKEN", "MIND_CACERT", "MIND_DEV"} {
		t.Setenv(v, "")
	}
	resolve := func(tg Flags) Context {
		c, err := tg.Resolve()
		require.NoError(t, err)
		return c
	}
	require.Equal(t, Context{Addr: defaultAddr}, resolve(Flags{}))

	require.NoError(t, SaveContext("prod", Context{Addr: "https://prod", Token: "p"}))
	require.NoError(t, SaveContext("test", Context{Addr: "http://test", Token: "t"}))
	stat, err := os.Stat(filepath.Join(home, "mind", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	require.Equal(t, Context{Addr: "http://test", Token: "t"}, resolve(Flags{}))
	require.Equal(t, Context{Addr: "https://prod", Token: "p"}, resolve(Flags{Context: "prod"}))

	t.Setenv("MIND_DEV", dev)
	_, err = (&Flags{}).Resolve()
	require.ErrorContains(t, err, "mind dev --data-dir "+dev)
	require.NoError(t, os.WriteFile(filepath.Join(dev, "dev.json"), []byte(`{"gateway":{"url":"http://dev"},"token":"d"}`), 0o600))
	require.Equal(t, Context{Addr: "http://dev", Token: "d", Dev: dev}, resolve(Flags{}))

	t.Setenv("MIND_ADDR", "http://other")
	require.Equal(t, Context{Addr: "http://other"}, resolve(Flags{}), "another cluster is not given this one's token")
	t.Setenv("MIND_TOKEN", "v")
	require.Equal(t, Context{Addr: "http://other", Token: "v"}, resolve(Flags{Addr: "other/"}))
	require.Equal(t, Context{Addr: "http://flag"}, resolve(Flags{Addr: "flag/"}), "the token is for the cluster at MIND_ADDR")
	t.Setenv("MIND_ADDR", "")
	require.Equal(t, Context{Addr: "http://flag", Token: "v"}, resolve(Flags{Addr: "flag/"}))
	t.Setenv("MIND_ADDR", "http://other")
}
