package fsm_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// The files under testdata/golden were written by earlier versions. They are made once, with MIND_WRITE_GOLDEN=level1, and
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
	written := map[string]bool{}
	for _, v := range versions {
		t.Run(v.Name(), func(t *testing.T) {
			dir := filepath.Join(goldenDir, v.Name())
			want := readFile(t, dir, "hash")
			m := fsm.New()
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
				commands, err := registry.Decode(data)
				require.NoError(t, err)
				for _, c := range commands {
					written[fmt.Sprintf("%T", c)] = true
				}
				m.Apply(index, data)
				require.Empty(t, fsm.Check(m.View()))
			}
			require.Equal(t, string(want), fmt.Sprintf("%d %016x\n", m.View().Index(), m.View().Hash()))

			restored := fsm.New()
			require.NoError(t, restored.Restore(bytes.NewReader(readFile(t, dir, "snapshot"))))
			sameState(t, m, restored)
			require.True(t, bytes.Equal(readFile(t, dir, "snapshot"), snapshotBytes(t, m)), "at the level of this log, snapshots are not written as they were then")
		})
	}
	// A command of a level that is not released may still change, so no log holds it.
	for _, def := range registry.Commands() {
		var locked *level.Locked
		if _, err := kernel.Encode(level.Released, def.Blank()); !errors.As(err, &locked) {
			require.True(t, written[fmt.Sprintf("%T", def.Blank())], "%s is in no golden log: give it a gate that opens at level %d, or write a log with it", def.Name, level.Released+1)
		}
	}
}

func readFile(t *testing.T, dir, name string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return b
}

func writeGolden(t *testing.T, dir string) {
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "golden files are never written again")
	w := story(t)
	w.do(access.RecordDenials{Denials: []access.Denial{
		{Tenant: "acme", User: "ada", Token: 1, Code: kernel.CodePermissionDenied, Reason: "AUTHZ_PERMISSION_DENIED", What: "PUT /queues/{name}", From: "10.0.0.1", Count: 3, Lasted: 5e9, Request: "req_1", By: "gateway"},
		{Code: kernel.CodeUnauthenticated, Reason: "AUTH_TOKEN_INVALID", Count: 1},
	}})
	w.do(clusterverbs.Configure{KeepFinished: 1000, KeepAudit: 5000}, clusterverbs.Tick{Settled: true, Renewing: []string{"n2"}}, queueverbs.DeleteQueue{Name: "nope"}, coordinators.DeleteCoordinator{ID: "nope"})
	token, ok := w.m.View().TokenByDigest(digestOf(9))
	require.True(t, ok)
	w.do(access.TouchTokens{IDs: []ident.Token{token.ID}}, access.RevokeToken{Tenant: "nope", ID: token.ID})
	n := testNode("n1", "boot1", 8)
	n.Incarnation = 3
	w.do(nodeverbs.RegisterNode{Node: n, Tasks: []work.TaskRef{{Job: 1, Attempt: 2, Rank: 3, Token: 4}}}, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	w.index += 3
	w.do(clusterverbs.NoteSnapshot{By: "c1"}, clusterverbs.Recover{Voters: w.m.View().Voters(), From: "c1", Actor: &access.Actor{User: "root"}})
	w.back("n2")
	// Commands that the story does not need are in the log all the same, with nothing in them.
	told := map[string]bool{}
	for _, e := range w.log {
		commands, err := registry.Decode(e.Data)
		require.NoError(t, err)
		for _, c := range commands {
			told[fmt.Sprintf("%T", c)] = true
		}
	}
	defs := registry.Commands()
	slices.SortFunc(defs, func(a, b kernel.CommandDef) int { return cmp.Compare(a.Number, b.Number) })
	for _, def := range defs {
		if !told[fmt.Sprintf("%T", def.Blank())] {
			w.do(def.Blank())
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
