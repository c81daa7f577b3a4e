package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/stretchr/testify/require"
)

func TestCheckBolt_damageIsAnErrorThatSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "raft.db")
	require.NoError(t, checkBolt(whole), "a log that is not there yet is as good as new")
	store, err := raftboltdb.NewBoltStore(whole)
	require.NoError(t, err)
	for from := uint64(1); from <= 2000; from += 500 {
		var entries []*raft.Log
		for i := range uint64(500) {
			entries = append(entries, &raft.Log{Index: from + i, Term: 1, Data: bytes.Repeat([]byte("x"), 100)})
		}
		require.NoError(t, store.StoreLogs(entries))
	}
	require.NoError(t, store.Close())
	require.NoError(t, checkBolt(whole))
	content, err := os.ReadFile(whole)
	require.NoError(t, err)

	const page = 4096
	damages := map[string][]byte{
		"no file of this kind": bytes.Repeat([]byte("y"), len(content)),
		"cut off":              content[:len(content)/3/page*page],
		"cut within a page":    content[:len(content)/2+100],
	}
	for share := 2; share <= 8; share += 2 {
		torn := bytes.Clone(content)
		copy(torn[len(torn)*share/10/page*page:], bytes.Repeat([]byte("torn"), 4*page/4))
		damages[fmt.Sprintf("torn at %d0 %%", share)] = torn
	}
	for name, damaged := range damages {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "raft.db")
			require.NoError(t, os.WriteFile(file, damaged, 0o600))
			err := checkBolt(file)
			require.ErrorContains(t, err, file+" is damaged")
			require.ErrorContains(t, err, "mind raft remove")
			_, err = Open(Config{Dir: filepath.Dir(file)})
			require.ErrorContains(t, err, "is damaged")
		})
	}
}
