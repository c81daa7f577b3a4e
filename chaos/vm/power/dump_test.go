package power

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
	"github.com/mindcoordinator/mind/chaos/workload"
	"github.com/mindcoordinator/mind/pki"
)

func epochFile(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func rosterFile(t *testing.T, version uint64) string {
	t.Helper()
	body, err := proto.Marshal(&v1.Roster{Version: version})
	require.NoError(t, err)
	return string(binary.BigEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))))
}

func TestDump_seesFilesThatAreTornOrOld(t *testing.T) {
	certificates := t.TempDir()
	_, err := pki.CreateCA(certificates)
	require.NoError(t, err)
	certificate, err := os.ReadFile(filepath.Join(certificates, "ca.pem"))
	require.NoError(t, err)
	whole := map[string]string{
		"control/mind/cluster.json": `{"Token": "x"}`, "control/mind/dev.json": `{"pid": 1}`, "control/mind/config/c1.yaml": "id: c1\n",
		"control/mind/pki/ca.pem": string(certificate),
		"n1/data/epoch":           epochFile(5), "n1/data/roster": rosterFile(t, 9), "n1/data/gpus.json": `{"version": 1}`,
		"n1/data/tasks/job_1.1.0.7/exit.json": `{"code": 7}`,
	}
	for name, tc := range map[string]struct {
		change map[string]string // a text, or "" for a missing file
		empty  string            // a file that is empty
		broken []result.Promise
	}{
		"whole":                        {nil, "", nil},
		"newer":                        {map[string]string{"n1/data/epoch": epochFile(6), "n1/data/roster": rosterFile(t, 10)}, "", nil},
		"nothing was made yet":         {map[string]string{"control/mind/cluster.json": "", "control/mind/dev.json": "", "n1/data/gpus.json": ""}, "", nil},
		"an exit that was not synced":  {nil, "n1/data/tasks/job_1.1.0.7/exit.json", nil},
		"an empty layout":              {nil, "control/mind/cluster.json", []result.Promise{result.Torn}},
		"a layout of zeros":            {map[string]string{"control/mind/cluster.json": "\x00\x00\x00\x00"}, "", []result.Promise{result.Torn}},
		"an empty configuration":       {nil, "control/mind/config/c1.yaml", []result.Promise{result.Torn}},
		"half a certificate":           {map[string]string{"control/mind/pki/ca.pem": string(certificate[:len(certificate)/2])}, "", []result.Promise{result.Torn}},
		"an epoch of before":           {map[string]string{"n1/data/epoch": epochFile(4)}, "", []result.Promise{result.WentBack}},
		"no epoch any more":            {map[string]string{"n1/data/epoch": ""}, "", []result.Promise{result.WentBack}},
		"an empty epoch":               {nil, "n1/data/epoch", []result.Promise{result.Torn}},
		"a roster of before":           {map[string]string{"n1/data/roster": rosterFile(t, 8)}, "", []result.Promise{result.WentBack}},
		"a roster with a wrong byte":   {map[string]string{"n1/data/roster": "x" + rosterFile(t, 9)[1:]}, "", []result.Promise{result.Torn}},
		"what is known of GPUs is cut": {map[string]string{"n1/data/gpus.json": `{"version"`}, "", []result.Promise{result.Torn}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := maps.Clone(whole)
			maps.Copy(files, tc.change)
			for file, text := range files {
				if text == "" {
					continue
				}
				if file == tc.empty {
					text = ""
				}
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			v := result.New()
			c := dumpCheck{Dumped: &Dumped{dir: dir}, result: v, before: map[string]kept{"n1": {epoch: 5, roster: 9}}}
			c.checkControl()
			require.NoError(t, c.checkAgent("n1"))
			requirePromises(t, v, tc.broken...)
		})
	}
}

func TestDump_verifiesLogs(t *testing.T) {
	dir, v := t.TempDir(), result.New()
	c := dumpCheck{Dumped: &Dumped{dir: dir}, result: v}
	require.NoError(t, c.checkCoordinator(t.Context(), "c1"), "it was not there yet")
	requirePromises(t, v)
	require.NoError(t, os.MkdirAll(filepath.Join(c.member("c1"), "raft"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.member("c1"), "raft", "raft.db"), make([]byte, 16<<10), 0o600))
	require.NoError(t, c.checkCoordinator(t.Context(), "c1"))
	requirePromises(t, v, result.Torn)
}

func TestDump_readsCheckpoints(t *testing.T) {
	dir := t.TempDir()
	d := &Dumped{dir: dir}
	written := ledger.Checkpoint{ID: "ckpt_1", JobID: "job_1", Attempt: 1, Step: 3, Path: sharedDir + "/job_1/checkpoints/a1-checkpoint-3"}
	place := d.shared(filepath.Dir(written.Path))
	require.NoError(t, os.MkdirAll(place, 0o755))
	require.NoError(t, workload.WriteCheckpoint(place, written.JobID, 1, 3, weightsBytes, "1 3\n"))
	check := func() *result.Result {
		v := result.New()
		dumpCheck{Dumped: d, result: v}.checkCheckpoints([]ledger.Checkpoint{written})
		return v
	}
	requirePromises(t, check())
	weights := filepath.Join(d.shared(written.Path), "weights")
	text, err := os.ReadFile(weights)
	require.NoError(t, err)
	for _, torn := range [][]byte{{}, text[:len(text)-1], slices.Concat(text[:4096], make([]byte, len(text)-4096))} {
		require.NoError(t, os.WriteFile(weights, torn, 0o600))
		requirePromises(t, check(), result.Torn)
	}
	require.NoError(t, os.RemoveAll(d.shared(written.Path)))
	after := check()
	requirePromises(t, after, result.Missing)
	require.Equal(t, 1, after.Broken())
}

// requirePromises requires that these promises are broken, and no others.
func requirePromises(t *testing.T, v *result.Result, want ...result.Promise) {
	t.Helper()
	require.ElementsMatch(t, want, v.BrokenPromises(), v)
}
