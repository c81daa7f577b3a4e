package embedded

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstall_writesTheProgramOnce(t *testing.T) {
	before := program
	t.Cleanup(func() { program = before })
	program = []byte("#!/bin/sh\nexit 0\n")
	dir := t.TempDir()
	path, err := Install(dir)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())
	again, err := Install(dir)
	require.NoError(t, err)
	require.Equal(t, path, again)
	same, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, info.ModTime(), same.ModTime())

	for what, damaged := range map[string][]byte{"half a program": program[:3], "what a power cut left of one": make([]byte, len(program))} {
		require.NoError(t, os.WriteFile(path, damaged, 0o755))
		_, err = Install(dir)
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, program, text, "%s is not taken for one", what)
	}

	program = []byte("another version")
	other, err := Install(dir)
	require.NoError(t, err)
	require.NotEqual(t, path, other)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing else is left")
}

func TestInstall_withoutAProgramSaysSo(t *testing.T) {
	before := program
	t.Cleanup(func() { program = before })
	program = nil
	path, err := Install(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, path)
}
