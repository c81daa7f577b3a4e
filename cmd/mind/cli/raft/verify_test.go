package raft_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestVerify_misuseAndMissingData(t *testing.T) {
	_, stderr, code := clitest.Run(t, "raft", "verify")
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "which coordinators?")
	dir := t.TempDir()
	_, stderr, code = clitest.Run(t, "raft", "verify", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "there is no log")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "raft"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "raft", "raft.db"), []byte(strings.Repeat("no BoltDB ", 4000)), 0o600))
	stdout, stderr, code := clitest.Run(t, "raft", "verify", "--data-dir", dir)
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "problems found in "+dir)
	require.Contains(t, clitest.Squeeze(stdout), "log store - - meta page 0 is damaged")
	stdout, _, code = clitest.Run(t, "raft", "verify", "--data-dir", dir, "-o", "json")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, fmt.Sprintf(`"where": %q`, "log store"))
}
