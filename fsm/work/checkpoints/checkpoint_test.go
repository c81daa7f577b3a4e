package checkpoints

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
)

func TestArchiveKey_isPlainAndNobodyElses(t *testing.T) {
	part := regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)
	seen := map[string]string{}
	long := strings.Repeat("x", 65)
	hashed := strings.Split(ArchiveKey("a/b", 1, 2), "/")[1]
	for _, tenant := range []string{"acme", "ACME", "", ".", "..", "a/b", "a b", "ä", long, long + "x", "~x", hashed, "a\x00"} {
		key := ArchiveKey(tenant, 1, 2)
		require.Empty(t, seen[key], "%q and %q have one key", tenant, seen[key])
		seen[key] = tenant
		require.LessOrEqual(t, len(key), 200)
		for p := range strings.SplitSeq(key, "/") {
			require.Regexp(t, part, p)
		}
		require.True(t, KeyIsOf(key, 2))
		require.False(t, KeyIsOf(key, 3))
	}
	require.Equal(t, "checkpoints/acme/"+ident.Job(1).String()+"/"+ident.Checkpoint(2).String(), ArchiveKey("acme", 1, 2))
	for _, key := range []string{"", "checkpoints", "checkpoints/acme/" + ident.Checkpoint(2).String(), "x/acme/job_1/" + ident.Checkpoint(2).String(), "checkpoints/../" + ident.Job(1).String() + "/" + ident.Checkpoint(2).String()} {
		require.False(t, KeyIsOf(key, 2), key)
	}
}

func TestTransitions_areAllThereIs(t *testing.T) {
	legal := map[[2]v1.CheckpointState_Value]bool{}
	for _, tr := range Transitions() {
		legal[[2]v1.CheckpointState_Value{tr.From, tr.To}] = true
		require.NotEmpty(t, tr.Why)
	}
	for from := range v1.CheckpointState_EXPIRED + 1 {
		for to := range v1.CheckpointState_EXPIRED + 1 {
			require.Equal(t, legal[[2]v1.CheckpointState_Value{from, to}], CanMove(from, to), "%s to %s", from, to)
		}
		require.False(t, CanMove(v1.CheckpointState_EXPIRED, from), "EXPIRED is for ever")
	}
	doc, err := os.ReadFile("../../../docs/develop/fsm.md")
	require.NoError(t, err)
	require.Contains(t, string(doc), Mermaid(), "the drawing in docs/develop/fsm.md is another one")
}

// nodes has an archive on those that are named, and knows the state of each: "" is reachable.
type nodes map[string]string

func (n nodes) HasArchive(node string) bool { _, ok := n[node]; return ok && n[node] != "bare" }
func (n nodes) Away(node string) bool       { s, ok := n[node]; return !ok || s == "away" || s == "lost" }
func (n nodes) Gone(node string) bool       { s, ok := n[node]; return !ok || s == "lost" }

func (n nodes) Archivists() (ids []string) {
	for _, id := range []string{"n1", "n2", "n3"} {
		if n.HasArchive(id) && !n.Away(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

type did struct {
	id     ident.Checkpoint
	action v1.CheckpointAction_Value
}

func orders(t *Tables, node string, n nodes) []did {
	var out []did
	for _, o := range t.OrdersOf(node, n) {
		out = append(out, did{o.ID, o.Action})
	}
	return out
}

const (
	upload   = v1.CheckpointAction_UPLOAD
	files    = v1.CheckpointAction_REMOVE_FILES
	archived = v1.CheckpointAction_REMOVE_ARCHIVED
)

func TestOrders_uploadsInTheirOrderThenRemovals(t *testing.T) {
	tables := NewTables()
	for _, c := range rows(local, uploading, local, expired, durable, expired) {
		c.Left = map[ident.Checkpoint]Left{4: LeftFiles | LeftArchived, 6: LeftFiles}[c.ID]
		Put(&tables, c)
	}
	require.Equal(t, []did{{2, upload}, {3, upload}, {1, upload}, {4, files}, {4, archived}, {6, files}}, orders(&tables, "n1", nodes{"n1": ""}))
	require.Equal(t, []did{{4, files}, {6, files}}, orders(&tables, "n1", nodes{"n1": "bare"}), "it has no archive")
	require.Empty(t, orders(&tables, "n2", nodes{"n1": "", "n2": ""}))
	for i := range 100 {
		Put(&tables, &Checkpoint{ID: ident.Checkpoint(100 + i), Job: 1, Path: "/x", Digest: string(rune(i)), Node: "n1", State: v1.CheckpointState_LOCAL})
	}
	all := orders(&tables, "n1", nodes{"n1": ""})
	require.Len(t, all, maxUploads+3, "uploads leave room for removals")
	require.Equal(t, []did{{2, upload}, {199, upload}}, all[:2], "what has begun goes on")
}

func TestOrders_oneOfThoseThatShareADirectoryUploads(t *testing.T) {
	tables := NewTables()
	both := rows(local, local)
	both[1].Node, both[1].Path = "n2", both[0].Path
	Put(&tables, both[0])
	Put(&tables, both[1])
	n := nodes{"n1": "", "n2": ""}
	require.Equal(t, []did{{1, upload}}, orders(&tables, "n1", n))
	require.Empty(t, orders(&tables, "n2", n))
	require.Equal(t, []did{{2, upload}}, orders(&tables, "n2", nodes{"n1": "away", "n2": ""}), "the other one does not")
	require.Equal(t, []did{{2, upload}}, orders(&tables, "n2", nodes{"n1": "bare", "n2": ""}), "the other one cannot")
	done := *both[1]
	done.State = durable
	Put(&tables, &done)
	require.Empty(t, orders(&tables, "n1", n))
	other := *both[1]
	other.Digest = "other"
	Put(&tables, &other)
	require.Equal(t, []did{{1, upload}}, orders(&tables, "n1", n), "these are other files")
	require.Equal(t, []did{{2, upload}}, orders(&tables, "n2", n))
}

func TestOrders_filesThatAreStillWantedStay(t *testing.T) {
	for path, stay := range map[string]bool{"/c/1": true, "/c/1/best": true, "/c/10": false, "/c/1-a": false, "/c": false} {
		tables := NewTables()
		gone := rows(expired)[0]
		gone.Left = LeftFiles
		Put(&tables, gone)
		Put(&tables, &Checkpoint{ID: 9, Job: 7, Path: path, Node: "n2", State: v1.CheckpointState_LOCAL})
		require.Equal(t, stay, len(orders(&tables, "n1", nodes{})) == 0, path)
	}
}

func TestOrders_othersRemoveWhatALostNodeHasLeft(t *testing.T) {
	tables := NewTables()
	gone := rows(expired)[0]
	gone.Left = LeftFiles | LeftArchived
	Put(&tables, gone)
	PutLeftover(&tables, &Leftover{ID: 1 << 16, Node: "n1", Key: ArchiveKey("t", 1, 1<<16)})
	n := nodes{"n1": "away", "n2": "", "n3": ""}
	require.Empty(t, append(orders(&tables, "n2", n), orders(&tables, "n3", n)...), "it may come back")
	require.False(t, tables.LeftByOthers(n))
	for _, state := range []string{"lost", "bare"} {
		n["n1"] = state
		require.True(t, tables.LeftByOthers(n))
		require.ElementsMatch(t, []did{{1, archived}, {1 << 16, archived}}, append(orders(&tables, "n2", n), orders(&tables, "n3", n)...), "each once")
		require.True(t, MayRemove("n2", "n1", n))
	}
	require.False(t, MayRemove("n2", "n3", n))
	require.False(t, MayRemove("n1", "n2", n))
}
