package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/call"
)

func TestCheckMounts(t *testing.T) {
	check := func(mounts ...string) error {
		var f call.Faults
		checkMounts(&f, "command_config.mounts", mounts)
		return f.Err()
	}
	require.NoError(t, check())
	require.NoError(t, check("/a:/b", "/a:/c:ro", "/with space:/tmp/x:rw"))
	for mount, why := range map[string]string{
		"/a":                                    "is not of the form",
		"/a:/b:rx":                              "is not of the form",
		"/a:/b:ro:x":                            "is not of the form",
		"":                                      "is not of the form",
		"a:/b":                                  "absolute",
		"/a:b":                                  "absolute",
		"/a/../b:/c":                            "absolute",
		"/a/:/c":                                "absolute",
		"/a:/b\n":                               "absolute",
		"/" + strings.Repeat("a", 4096) + ":/b": "absolute",
		"/a:/":                                  "nothing can be mounted at /",
		"/a:/proc/1":                            "nothing can be mounted at /proc/1",
	} {
		require.ErrorContains(t, check(mount), why, mount)
		require.ErrorContains(t, check(mount), "command_config.mounts", mount)
	}
	require.ErrorContains(t, check("/a:/c", "/b:/c:rw"), "two mounts have the target /c")
	var many []string
	for i := range maxMounts + 1 {
		many = append(many, fmt.Sprintf("/a:/b%d", i))
	}
	require.NoError(t, check(many[1:]...))
	require.ErrorContains(t, check(many...), "at most 32")
}
