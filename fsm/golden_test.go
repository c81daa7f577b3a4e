package fsm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files under testdata/golden are what released versions wrote. They are made once, with MIND_WRITE_GOLDEN=v5, and
// never again: a version that cannot replay them cannot be rolled out over what is on disk.
const goldenDir = "testdata/golden"

// TestGolden_oldLogsAndSnapshotsAreUnderstood replays the log of each version and restores its snapshot: both must come
// to the state hash that was written down with them.
func TestGolden_oldLogsAndSnapshotsAreUnderstood(t *testing.T) {
	if version := os.Getenv("MIND_WRITE_GOLDEN"); version != "" {
		writeGolden(t, filepath.Join(goldenDir, version))
	}
	versions, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, v := range versions {
		t.Run(v.Name(), func(t *testing.T) {
			dir := filepath.Join(goldenDir, v.Name())
			want := readFile(t, dir, "hash")
			m := New()
			kinds := map[string]bool{}
			lines := bufio.NewScanner(bytes.NewReader(readFile(t, dir, "log")))
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				var index uint64
				var what, rest string
				_, err := fmt.Sscan(lines.Text(), &index, &what, &rest)
				require.NoError(t, err)
				if what == "voters" {
					m.StoreConfiguration(index, strings.Split(rest, ","))
					continue
				}
				data, err := hex.DecodeString(rest)
				require.NoError(t, err)
				e, err := decodeEntry(data)
				require.NoError(t, err)
				for _, c := range e.commands {
					kinds[fmt.Sprintf("%T", c)] = true
				}
				m.Apply(index, data)
				require.Empty(t, Check(m.View()))
			}
			require.Equal(t, string(want), fmt.Sprintf("%d %016x\n", m.View().Index(), m.View().Hash()))
			require.Len(t, kinds, goldenCommands[v.Name()], "kinds of commands in the log")

			restored := New()
			require.NoError(t, restored.Restore(bytes.NewReader(readFile(t, dir, "snapshot"))))
			sameState(t, m, restored)
			if v.Name() == currentGolden {
				require.Equal(t, readFile(t, dir, "snapshot"), snapshotBytes(t, m), "the format has changed without a new version")
				require.Len(t, kinds, len(commandDefs), "a command is missing in the golden log")
			}
		})
	}
}

// currentGolden is the newest directory; goldenCommands is how many kinds of commands each version had.
const currentGolden = "v5"

var goldenCommands = map[string]int{"v1": 12, "v2": 18, "v3": 22, "v4": 23, "v5": 25}

func readFile(t *testing.T, dir, name string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return b
}

func writeGolden(t *testing.T, dir string) {
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "golden files are never written again")
	w := story(t)
	w.do(RecordDenials{Denials: []Denial{
		{Tenant: "acme", User: "ada", Token: 1, Code: CodePermissionDenied, Reason: "AUTHZ_PERMISSION_DENIED", What: "PUT /queues/{name}", From: "10.0.0.1", Count: 3, Lasted: 5e9, Request: "req_1", By: "gateway"},
		{Code: CodeUnauthenticated, Reason: "AUTH_TOKEN_INVALID", Count: 1},
	}})
	w.do(Configure{KeepFinished: 1000, KeepAudit: 5000}, Tick{Settled: true, Renewing: []string{"n2"}}, DeleteQueue{Name: "nope"}, DeleteCoordinator{ID: "nope"})
	token, ok := w.m.View().TokenByDigest(digestOf(9))
	require.True(t, ok)
	w.do(TouchTokens{IDs: []TokenID{token.ID}}, RevokeToken{Tenant: "nope", ID: token.ID})
	n := testNode("n1", "boot1", 8)
	n.Incarnation = 3
	w.do(RegisterNode{Node: n, Tasks: []TaskRef{{Job: 1, Attempt: 2, Rank: 3, Token: 4}}}, SetNode{ID: "n1", Action: NodeEnable})
	w.index += 3
	w.do(NoteSnapshot{By: "c1"}, Recover{Voters: w.m.View().Voters(), From: "c1", Actor: &Actor{User: "root"}})
	w.back("n2")
	// What the story does not need is in the log all the same, with nothing in it.
	told := map[string]bool{}
	for _, e := range w.log {
		decoded, err := decodeEntry(e.Data)
		require.NoError(t, err)
		for _, c := range decoded.commands {
			told[fmt.Sprintf("%T", c)] = true
		}
	}
	for number := range uint16(1 << 10) {
		if def, ok := commandDefs[number]; ok && !told[fmt.Sprintf("%T", def.blank())] {
			w.do(def.blank())
		}
	}
	var log strings.Builder
	at := 0
	for index := uint64(1); index <= w.index; index++ {
		if at < len(w.log) && w.log[at].Index == index {
			fmt.Fprintf(&log, "%d entry %x\n", index, w.log[at].Data)
			at++
		} else {
			fmt.Fprintf(&log, "%d voters %s\n", index, strings.Join(w.m.View().Voters(), ","))
		}
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, data := range map[string][]byte{
		"log": []byte(log.String()), "snapshot": snapshotBytes(t, w.m),
		"hash": fmt.Appendf(nil, "%d %016x\n", w.m.View().Index(), w.m.View().Hash()),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
}
