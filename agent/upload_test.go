package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/uploads"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// uploaded sends some files of the tenant acme into a new archive.
func uploaded(t *testing.T, files map[string]string) (dir, id string) {
	t.Helper()
	dir = t.TempDir()
	store, err := archive.Open("file://"+dir, archive.Access{})
	require.NoError(t, err)
	keeper, tree := uploads.NewKeeper(uploads.Config{Store: store}), &uploads.Tree{}
	for path, content := range files {
		sum := uploads.Sum([]byte(content))
		tree.Files = append(tree.Files, uploads.File{Path: path, Size: int64(len(content)), Pieces: []string{sum}})
		pack, err := uploads.EncodePack([]uploads.Piece{{SHA256: sum, Size: int64(len(content))}}, []byte(content))
		require.NoError(t, err)
		_, err = keeper.PutPack(t.Context(), "acme", pack)
		require.NoError(t, err)
	}
	id, missing, err := keeper.Offer(t.Context(), "acme", tree)
	require.NoError(t, err)
	require.Empty(t, missing)
	return dir, id
}

// withUpload is an order of the tenant acme for a shell line.
func withUpload(id, cwd, line string) *v1.TaskOrder {
	o := order("/bin/sh", "-c", line)
	o.Spec.TenantId = "acme"
	o.Spec.Job.CommandConfig.Upload, o.Spec.Job.CommandConfig.Cwd = id, cwd
	return o
}

// Each attempt gets a copy of its own, which nothing is left of when it has ended.
func TestAnUploadIsCopiedForEachAttempt(t *testing.T) {
	store, id := uploaded(t, map[string]string{"main.sh": "echo main", "pkg/mod": "module"})
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.CheckpointArchive.URL = "file://" + store
	inProcess(t, cfg)
	out := t.TempDir()
	line := `cat main.sh pkg/mod > ` + out + `/$MIND_ATTEMPT; ls >> ` + out + `/$MIND_ATTEMPT; pwd > ` + out + `/cwd; echo spoiled > main.sh; touch left; test "$PWD" = "$MIND_UPLOAD_DIR"`
	for attempt := int32(1); attempt <= 2; attempt++ {
		o := withUpload(id, "", line)
		o.Task.Attempt = attempt
		l.want(o)
		end := l.ended(o.GetTask())
		require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	}
	for _, attempt := range []string{"1", "2"} {
		text, err := os.ReadFile(filepath.Join(out, attempt))
		require.NoError(t, err)
		require.Equal(t, "echo mainmodulemain.sh\npkg\n", string(text), "attempt %s", attempt)
	}
	o := withUpload(id, "pkg", `pwd > `+out+`/cwd`)
	l.want(o)
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	text, err := os.ReadFile(filepath.Join(out, "cwd"))
	require.NoError(t, err)
	dir := filepath.Join(cfg.DataDir, "tasks", taskid.Of(o.GetTask()).Name(), inputs.UploadDir)
	require.Equal(t, filepath.Join(dir, "pkg"), strings.TrimSpace(string(text)))
	for _, where := range []string{filepath.Join(cfg.DataDir, "tasks", "*", inputs.UploadDir), filepath.Join(cfg.DataDir, "unpacked", "*")} {
		require.Eventually(t, func() bool {
			left, err := filepath.Glob(where)
			return err == nil && len(left) == 0
		}, 30*time.Second, time.Millisecond, "nothing is left of %s", where)
	}
}

// A job with an upload may still work in a directory of the node.
func TestAnUploadBesideADirectoryOfTheNode(t *testing.T) {
	store, id := uploaded(t, map[string]string{"main.sh": "exit 7"})
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.CheckpointArchive.URL = "file://" + store
	inProcess(t, cfg)
	o := withUpload(id, "/", `test "$PWD" = / && . "$MIND_UPLOAD_DIR/main.sh"`)
	l.want(o)
	require.EqualValues(t, 7, l.ended(o.GetTask()).GetExitCode())
}

func TestAnUploadThatCannotBeHad(t *testing.T) {
	store, id := uploaded(t, map[string]string{"main.sh": "true", "other": "content"})
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.CheckpointArchive.URL = "file://" + store
	inProcess(t, cfg)
	fails := func(o *v1.TaskOrder, says string) {
		t.Helper()
		l.want(o)
		end := l.ended(o.GetTask())
		require.Equal(t, v1.ErrorType_DATA_FETCH, end.GetErrorType(), end.GetErrorMessage())
		require.Contains(t, end.GetErrorMessage(), "upload "+o.GetSpec().GetJob().GetCommandConfig().GetUpload())
		require.Contains(t, end.GetErrorMessage(), says)
	}
	foreign := withUpload(id, "", "true")
	foreign.Spec.TenantId = "initech"
	fails(foreign, "does not have it")
	fails(withUpload("sha256:"+strings.Repeat("0", 64), "", "true"), "submit the job again")

	packs, err := filepath.Glob(filepath.Join(store, "uploads/*/packs/*"))
	require.NoError(t, err)
	require.Len(t, packs, 2)
	content, err := os.ReadFile(packs[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(packs[0], []byte(strings.ToUpper(string(content))), 0o600))
	fails(withUpload(id, "", "true"), "damaged in the archive")
	require.NoError(t, os.Remove(packs[0]))
	fails(withUpload(id, "", "true"), "does not have it any more")
	trees, err := filepath.Glob(filepath.Join(store, "uploads/*/trees/*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(trees[0], []byte(`{"files":[{"path":"l","link":"/etc"}]}`), 0o600))
	fails(withUpload(id, "", "true"), "damaged in the archive")
}

func TestAnUploadWithoutAnArchive(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	o := withUpload("sha256:"+strings.Repeat("0", 64), "", "true")
	l.want(o)
	require.Contains(t, l.ended(o.GetTask()).GetErrorMessage(), "set checkpoint_archive of its agent")
}

// The user of a task works in its upload, and in directories of its own.
func TestAnUploadOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	store, id := uploaded(t, map[string]string{"main.sh": "id -u", "pkg/mod": "module"})
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.CheckpointArchive.URL, cfg.Users = "file://"+store, map[string]string{"acme": "4321:4322"}
	work := t.TempDir()
	require.NoError(t, os.Chmod(work, 0o777))
	for _, dir := range []string{cfg.DataDir, work} {
		for dir != "/" && dir != os.TempDir() {
			dir = filepath.Dir(dir)
			require.NoError(t, os.Chmod(dir, 0o711))
			if filepath.Base(dir) == testrun.Name() {
				break
			}
		}
	}
	inProcess(t, cfg)
	for cwd, line := range map[string]string{
		"":    `. ./main.sh > $MIND_OUTPUT_DIR/who && touch left && test "$PWD" = "$MIND_UPLOAD_DIR"`,
		"pkg": `test "$(cat mod)" = module && test "$PWD" = "$MIND_UPLOAD_DIR/pkg"`,
	} {
		o := withUpload(id, cwd, line)
		l.want(o)
		end := l.ended(o.GetTask())
		require.Zero(t, end.GetExitCode(), "%q: %s", cwd, end.GetErrorMessage())
		require.Empty(t, end.GetErrorMessage())
	}
	for name, output := range map[string]string{"elsewhere": filepath.Join(work, "out"), "relative": "out", "beside an upload": "out"} {
		o := withUpload("", "", `id -u > $MIND_OUTPUT_DIR/who`)
		if name == "beside an upload" {
			o = withUpload(id, "pkg", `id -u > $MIND_OUTPUT_DIR/who`)
		}
		o.Spec.Job.OutputConfig = &v1.OutputConfig{OutputDir: output}
		l.want(o)
		end := l.ended(o.GetTask())
		require.Zero(t, end.GetExitCode(), "%s: %s", name, end.GetErrorMessage())
		require.Empty(t, end.GetErrorMessage(), name)
	}
}
