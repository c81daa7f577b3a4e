package isolation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenUsers(t *testing.T) {
	u, err := OpenUsers(UsersConfig{})
	require.NoError(t, err)
	require.Nil(t, u)
	one, err := u.Of("any")
	require.NoError(t, err)
	require.Nil(t, one, "tasks run as the user of the agent")
	if os.Geteuid() != 0 {
		_, err = OpenUsers(UsersConfig{Default: "4321:4322"})
		require.ErrorContains(t, err, "need an agent that runs as root")
		t.Skip("only root can become another user")
	}
	u, err = OpenUsers(UsersConfig{ByTenant: map[string]string{"a": "4321:4322", "b": "nobody"}})
	require.NoError(t, err)
	one, err = u.Of("a")
	require.NoError(t, err)
	require.Equal(t, []uint32{4321, 4322}, []uint32{one.UID, one.GID})
	one, err = u.Of("b")
	require.NoError(t, err)
	require.Equal(t, "nobody", one.Name)
	require.NotEmpty(t, one.Home)
	require.NotEmpty(t, one.Shell)
	require.NotEmpty(t, one.Groups)
	require.NotZero(t, one.UID)
	_, err = u.Of("c")
	require.ErrorContains(t, err, "tenant c has no user here, and the agent has no default_user")
	u, err = OpenUsers(UsersConfig{Default: "4321:4322"})
	require.NoError(t, err)
	one, err = u.Of("c")
	require.NoError(t, err)
	require.EqualValues(t, 4321, one.UID)
}

func TestOpenUsers_refuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	for name, want := range map[string]string{
		"root": "never as root", "0:5": "never as root", "daemon": "from 1000 on (min_uid)", "999:5": "from 1000 on (min_uid)",
		"4321:0": "in the group of root", "no-such-user": "the system has no such user", "a:b": `"a" is no id`, "1:-1": "is no id",
	} {
		_, err := OpenUsers(UsersConfig{Default: name})
		require.ErrorContains(t, err, want, name)
		_, err = OpenUsers(UsersConfig{ByTenant: map[string]string{"t": name}})
		require.ErrorContains(t, err, "user of tenant t: ", name)
	}
	_, err := OpenUsers(UsersConfig{Default: "600:600", MinUID: 500})
	require.NoError(t, err)
}

func TestUsers_reach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	u, err := OpenUsers(UsersConfig{Default: "4321:4322"})
	require.NoError(t, err)
	top := t.TempDir()
	tasks := filepath.Join(top, "data", "tasks")
	require.NoError(t, os.MkdirAll(tasks, 0o711))
	require.NoError(t, os.Chmod(top, 0o700))
	require.ErrorContains(t, u.Reach(tasks), "user 4321 of tasks cannot reach "+tasks+": allow passing through ")
	require.NoError(t, u.Reach("/usr/bin"))
}
