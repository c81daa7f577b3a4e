package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A directory travels with its job to nodes that do not have it, and every attempt runs the same files.
func TestSubmit_uploadsADirectory(t *testing.T) {
	theBinary(t)
	d := startDev(t, "--coordinators", "1", "--agents", "2")
	dir := t.TempDir()
	put := func(name, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for i := range 2_000 {
		put(fmt.Sprintf("pkg%d/m%d.py", i%20, i), fmt.Sprintf("VALUE = %d\n", i))
	}
	put("main.sh", "echo version one; ls | wc -l; cat pkg19/m1999.py; test $MIND_ATTEMPT = 2\n")
	put("secret", "key")
	put(".mindignore", "secret\n")
	began := time.Now()
	out, stderr, code := d.cli(t, "submit", "--upload", dir, "--max-retries", "1", "--wait", "--follow", "--", "sh", "main.sh")
	require.Zero(t, code, stderr)
	t.Log("ran twice after", time.Since(began))
	require.Contains(t, stderr, "2002 files")
	id, log, _ := strings.Cut(out, "\n")
	require.Equal(t, strings.Repeat("version one\n21\nVALUE = 1999\n", 2), log, "both attempts")

	put("main.sh", "echo version two\n")
	out, stderr, code = d.cli(t, "submit", "--upload", dir, "--nodes", "2", "--gpus", "2", "--wait", "--follow", "--", "sh", "main.sh")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "sent 1 file, ")
	require.Equal(t, 2, strings.Count(out, "version two"))
	require.NoError(t, os.RemoveAll(dir))

	out, stderr, code = d.cli(t, "job", id)
	require.Zero(t, code, stderr)
	require.Regexp(t, `\nupload +sha256:`, out)
	_, stderr, code = d.cli(t, "submit", "--upload", filepath.Join(dir, "none"), "--", "true")
	require.NotZero(t, code)
	require.Contains(t, stderr, "--upload")
	_, stderr, code = d.cli(t, "submit", "--upload", t.TempDir(), "--", "true")
	require.NotZero(t, code)
	require.Contains(t, stderr, "no file to send")
	d.stop(t)
}
