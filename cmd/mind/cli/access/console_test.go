package access_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestConsole_printsTheAddress(t *testing.T) {
	for _, v := range []string{"MIND_DEV", "MIND_CACERT", "DISPLAY", "WAYLAND_DISPLAY"} {
		t.Setenv(v, "")
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("MIND_ADDR", "http://gateway.example:8080")
	t.Setenv("MIND_TOKEN", "sgk_a+b")
	t.Setenv("PATH", t.TempDir()) // there is no browser
	stdout, _, code := clitest.Run(t, "console")
	require.Zero(t, code)
	require.Equal(t, "http://gateway.example:8080/console/\n", stdout, "without the token")
	stdout, _, code = clitest.Run(t, "console", "--sign-in")
	require.Zero(t, code)
	require.Equal(t, "http://gateway.example:8080/console/#token=sgk_a%2Bb\n", stdout)
}

// The browser is started with the address alone: others may read the arguments of a process.
func TestConsole_opensItWithoutTheToken(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("xdg-open is of Linux")
	}
	bin := t.TempDir()
	opened := filepath.Join(bin, "opened")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\necho \"$@\" > "+opened+"\n"), 0o700))
	t.Setenv("PATH", bin)
	t.Setenv("DISPLAY", ":0")
	t.Setenv("MIND_DEV", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("MIND_ADDR", "http://gateway.example:8080")
	t.Setenv("MIND_TOKEN", "sgk_secret")
	_, _, code := clitest.Run(t, "console")
	require.Zero(t, code)
	text, err := os.ReadFile(opened)
	require.NoError(t, err)
	require.Equal(t, "http://gateway.example:8080/console/\n", string(text))
}
