package devcluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// An earlier version wrote these files without a sync. After a power cut only the coordinators' data is certain to be
// complete, and any other file may be missing or empty.
func TestCluster_anEmptyLayoutIsPutTogetherAgain(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"it is empty":     func(t *testing.T, dir string) { require.NoError(t, os.Truncate(layoutFile(dir), 0)) },
		"it is cut off":   func(t *testing.T, dir string) { require.NoError(t, os.Truncate(layoutFile(dir), 20)) },
		"it is not there": func(t *testing.T, dir string) { require.NoError(t, os.Remove(layoutFile(dir))) },
		"the configurations are empty, too": func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(layoutFile(dir), 0))
			configs, err := filepath.Glob(filepath.Join(dir, "config", "*"))
			require.NoError(t, err)
			require.Len(t, configs, 5)
			for _, c := range configs {
				require.NoError(t, os.Truncate(c, 0))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := options(dir)
			o.Coordinators, o.GPUs = 3, "2xA100"
			c := startCluster(t, o)
			first, text := c.Info(), readFile(t, infoFile(dir))
			for _, m := range first.Coordinators {
				data := filepath.Join(dir, "coordinators", m.ID)
				require.NoError(t, os.MkdirAll(data, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(data, "raft.db"), []byte("jobs"), 0o600))
			}
			require.NoError(t, c.Stop())
			spoil(t, dir)
			require.NoError(t, os.WriteFile(infoFile(dir), text, 0o600), "nobody stopped the cluster")

			second := startCluster(t, Options{Dir: dir, StopWithin: o.StopWithin, Logger: o.Logger}).Info()
			require.Equal(t, first.Token, second.Token)
			require.Equal(t, first.Operator, second.Operator)
			require.Equal(t, first.Gateway.URL, second.Gateway.URL)
			require.Len(t, second.Coordinators, 3)
			for i, m := range second.Coordinators {
				require.Equal(t, first.Coordinators[i].ID, m.ID)
				require.Equal(t, first.Coordinators[i].RaftAddr, m.RaftAddr)
			}
			require.Len(t, second.Agents, 1)
		})
	}
}

func TestCluster_aLayoutThatCannotBePutTogetherLosesNothing(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "coordinators", "c1", "raft.db")
	require.NoError(t, os.MkdirAll(filepath.Dir(data), 0o700))
	require.NoError(t, os.WriteFile(data, []byte("jobs"), 0o600))
	require.NoError(t, os.WriteFile(layoutFile(dir), nil, 0o600))
	require.NoError(t, os.WriteFile(infoFile(dir), nil, 0o600))
	before := list(t, dir)
	_, err := Start(t.Context(), options(dir))
	require.ErrorContains(t, err, "it is empty")
	require.ErrorContains(t, err, "Nothing was removed: the jobs are in "+filepath.Join(dir, "coordinators"))
	require.NotContains(t, err.Error(), "remove "+dir)
	require.Equal(t, "jobs", string(readFile(t, data)))
	require.Subset(t, list(t, dir), before)

	// With other addresses the cluster would not find its own replicas.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "config"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config", "gateway.yaml"), []byte("http_addr: 127.0.0.1:1\ntokens: [{token: t}]\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config", "c2.yaml"), []byte("id: c2\nraft_addr: 127.0.0.1:2\n"), 0o600))
	_, err = Start(t.Context(), options(dir))
	require.ErrorContains(t, err, "does not have the Raft address of coordinator c1")
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return text
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return names
}

func TestLayout_whereDataMayLie(t *testing.T) {
	dir, home, here := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(here)
	rootsOf := func(o Options) []string {
		t.Helper()
		o.Dir = dir
		l, err := readLayout(dir, o)
		require.NoError(t, err)
		require.NoError(t, l.write())
		require.NoError(t, l.writeConfigs())
		var config struct {
			Roots []string `yaml:"data_roots"`
		}
		require.NoError(t, yaml.Unmarshal(readFile(t, l.config("n1")), &config))
		return config.Roots
	}
	o := options(dir)
	require.ElementsMatch(t, []string{os.TempDir(), home, here}, rootsOf(o))
	t.Chdir("/")
	require.ElementsMatch(t, []string{os.TempDir(), home}, rootsOf(o), "not all of the machine")
	o.DataRoots = []string{here, home}
	require.Equal(t, []string{here, home}, rootsOf(o))
	o.DataRoots = nil
	require.Equal(t, []string{here, home}, rootsOf(o), "as at the last start")
	o.DataRoots = []string{filepath.Join(home, "none")}
	_, err := readLayout(dir, o)
	require.ErrorContains(t, err, "none is not a directory")
}
