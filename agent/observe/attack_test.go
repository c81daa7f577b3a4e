package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// inPlaceOfAFile are things that a task may put in place of a file that its agent reads. Each function takes the name
// of the file and the name of a file that the task may not read.
var inPlaceOfAFile = map[string]func(name, secret string) error{
	"a link":            func(name, secret string) error { return os.Symlink(secret, name) },
	"a hard link":       func(name, secret string) error { return os.Link(secret, name) },
	"a FIFO":            func(name, _ string) error { return unix.Mkfifo(name, 0o600) },
	"a directory":       func(name, _ string) error { return os.Mkdir(name, 0o700) },
	"a device":          func(name, _ string) error { return unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
	"a link to zeros":   func(name, _ string) error { return os.Symlink("/dev/zero", name) },
	"a link to itself":  func(name, _ string) error { return os.Symlink(name, name) },
	"a link to its dir": func(name, _ string) error { return os.Symlink(filepath.Dir(name), name) },
}

// secretOf makes a file that the task may not read. It contains a step and a checkpoint that no task reports, so that a
// finding shows if it was read.
func secretOf(t *testing.T) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(name, []byte(`{"step": 666666666, "event": "phase", "phase": "EXPORTING"}`+"\n"), 0o600))
	return name
}

func TestWhatIsInThePlaceOfMetricsAndEventsIsNotRead(t *testing.T) {
	for what, put := range inPlaceOfAFile {
		t.Run(what, func(t *testing.T) {
			secret, w := secretOf(t), newWatched(t)
			var said []string
			w.remark = func(text string) { said = append(said, text) }
			for _, name := range []string{shim.MetricsFile, shim.EventsFile} {
				if err := put(filepath.Join(w.dir, name), secret); err != nil {
					t.Skip(err)
				}
			}
			require.Empty(t, w.scan(time.Unix(1000, 0), false))
			require.Empty(t, w.scan(time.Unix(1001, 0), true))
			require.Zero(t, w.metrics.BytesRead+w.events.BytesRead)
			require.Len(t, said, 2, "said once of each: %q", said)
			require.Contains(t, said[0], "events.jsonl of this task is not read: it ")
			// The task replaces it by a file.
			require.NoError(t, os.RemoveAll(filepath.Join(w.dir, shim.MetricsFile)))
			w.write(filepath.Join(w.dir, shim.MetricsFile), "{\"step\": 3}\n")
			require.Equal(t, []int64{3}, w.steps(w.scan(time.Unix(1002, 0), true)))
		})
	}
}

// A sparse file of 30 GiB once delayed the end of a task by a minute.
func TestASparseFileCostsNothing(t *testing.T) {
	w := newWatched(t)
	w.metrics.Most, w.events.Most = 256<<20, 16<<20
	for _, name := range []string{shim.MetricsFile, shim.EventsFile} {
		w.write(filepath.Join(w.dir, name), "{\"step\": 1}\n")
		require.NoError(t, os.Truncate(filepath.Join(w.dir, name), 30<<30))
		w.write(filepath.Join(w.dir, name), "{\"step\": 2}\n")
	}
	require.Equal(t, []int64{1}, w.steps(w.scan(time.Unix(1000, 0), true)))
	require.Less(t, w.metrics.BytesRead+w.events.BytesRead, int64(1<<20))
}

func TestWhatATaskWritesIsReadInBoundedLooks(t *testing.T) {
	w := newWatched(t)
	w.metrics.Most, w.events.Most = 64<<20, 16<<20
	for _, name := range []string{shim.MetricsFile, shim.EventsFile} {
		w.write(filepath.Join(w.dir, name), strings.Repeat("x", 100<<20))
	}
	for looks := int64(1); looks < 4; looks++ {
		require.Empty(t, w.scan(time.Unix(1000, 0), false))
		require.LessOrEqual(t, w.metrics.BytesRead, looks*(maxLookBytes+1<<20))
		require.LessOrEqual(t, w.events.BytesRead, looks*(maxLookBytes+1<<20))
	}
	var said []string
	w.remark = func(text string) { said = append(said, text) }
	require.Empty(t, w.scan(time.Unix(1000, 0), true))
	require.LessOrEqual(t, w.metrics.BytesRead, int64(70<<20), "a line without an end")
	require.LessOrEqual(t, w.events.BytesRead, int64(20<<20))
	require.Equal(t, []string{
		"mind: events.jsonl of this task is longer than 16 MiB: the rest is not read (events_bytes of the agent)",
		"mind: metrics.jsonl of this task is longer than 64 MiB: the rest is not read (metrics_bytes of the agent)",
	}, said)
}

func TestGarbageIsNoEvent(t *testing.T) {
	w := newWatched(t)
	garbage := "\x00\xff\xfe{\"event\"\n{\"event\": \"checkpoint\", \"path\": \"\x00\"}\n{\"event\": \"checkpoint\", \"path\": \"\\ud800\"}\n" +
		strings.Repeat("[", 100_000) + "\n" + strings.Repeat(`{"a":`, 20_000) + "\n" + `{"event": "progress", "step": 1e308, "total_steps": -1e308}` + "\n"
	w.write(filepath.Join(w.dir, shim.EventsFile), garbage)
	w.write(filepath.Join(w.dir, shim.MetricsFile), garbage+"{\"step\": NaN}\n{\"step\": \"many\"}\n")
	for _, f := range w.scan(time.Unix(1000, 0), true) {
		require.NotNil(t, f.Body.GetProgress(), "%v", f.Body)
	}
}

func (w watched) checkpoint(name string) {
	w.t.Helper()
	w.write(filepath.Join(w.out, name, "model"), "x")
}

func TestACheckpointOfWhichAProgramTellsLiesWithinWhatIsTheJobs(t *testing.T) {
	w := newWatched(t)
	elsewhere := t.TempDir()
	w.write(filepath.Join(elsewhere, "other", "model"), "another tenant's")
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(w.out, "link")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "other"), filepath.Join(w.out, "own")))
	w.checkpoint("real")
	require.NoError(t, os.Symlink("real", filepath.Join(w.out, "latest")))
	var said []string
	w.remark = func(text string) { said = append(said, text) }
	for _, path := range []string{
		filepath.Join(elsewhere, "other"), "link/other", "own", "../" + filepath.Base(filepath.Dir(elsewhere)) + "/" + filepath.Base(elsewhere) + "/other",
		"/etc", "/", "/proc/1", "/no/such/thing", "..", "real/../../../../etc",
	} {
		w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": %q}`, path))
	}
	require.Empty(t, w.scan(time.Unix(1000, 0), false))
	require.Len(t, said, 10, "%q", said)
	for _, text := range said {
		require.Contains(t, text, "it is outside of the directories that the job may register")
	}
	for _, path := range []string{"real", "latest", "./real/../real"} {
		w.checkpoint("real-" + fmt.Sprint(len(path)))
		w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": %q}`, path))
	}
	require.Equal(t, []string{"real", "latest"}, w.checkpointNames(w.scan(time.Unix(1000, 0), false)))

	// All jobs may use directories that the operator lists, except the agent's own directories in them.
	listed := watched{newWatcher(Config{Dir: t.TempDir(), Spec: shim.Spec{CheckpointDir: w.out, Cwd: "/"}, Roots: []string{elsewhere}}), t, "", w.out}
	listed.dir = listed.Watcher.dir
	listed.announce(fmt.Sprintf(`{"event": "checkpoint", "path": %q}`, filepath.Join(elsewhere, "other")))
	listed.announce(`{"event": "checkpoint", "path": "/etc"}`)
	listed.places.private = private.New(filepath.Join(elsewhere, "state"))
	listed.write(filepath.Join(elsewhere, "state", "outputs", "job_2.checkpoints", "checkpoint-1", "model"), "x")
	listed.announce(fmt.Sprintf(`{"event": "checkpoint", "path": %q}`, filepath.Join(elsewhere, "state", "outputs", "job_2.checkpoints", "checkpoint-1")))
	require.Equal(t, []string{"other"}, listed.checkpointNames(listed.scan(time.Unix(1000, 0), false)))
}

// A task puts a link in place of its checkpoint directory, or of the folder of its job.
func TestALinkInThePlaceOfTheCheckpointDirectoryIsNotFollowed(t *testing.T) {
	for link, dir := range map[string]string{"job_1.checkpoints": "job_1.checkpoints", "job_1": "job_1/checkpoints", "job_1/checkpoints": "job_1/checkpoints"} {
		t.Run(link, func(t *testing.T) {
			base, elsewhere, private := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "private")
			out := filepath.Join(base, dir)
			w := watched{newWatcher(Config{Dir: t.TempDir(), Spec: shim.Spec{CheckpointDir: out, Dirs: []string{out}, Cwd: filepath.Join(base, "work")}, Roots: []string{elsewhere}}), t, "", out}
			w.dir, w.endedWell = w.Watcher.dir, true
			var said []string
			w.remark = func(text string) { said = append(said, text) }
			w.checkpoint("checkpoint-1")
			require.Equal(t, []string{"checkpoint-1"}, w.checkpointNames(w.scan(time.Unix(1000, 0), true)))

			put := func(to string) {
				at := filepath.Join(base, link)
				require.NoError(t, os.RemoveAll(at))
				require.NoError(t, os.Symlink(to, at))
			}
			w.write(filepath.Join(private, "customer-7", "model"), "another tenant's")
			w.write(filepath.Join(private, "checkpoints", "customer-8", "model"), "another tenant's")
			put(private)
			for range 2 {
				w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": %q}`, filepath.Join(out, "customer-7")))
				require.Empty(t, w.checkpointNames(w.scan(time.Unix(1001, 0), true)))
			}
			require.Contains(t, said[0]+said[1], out+" are not registered: it is outside of the directories that the job may register")
			require.Len(t, said, 3, "of the directory once: %q", said)

			// The link may lead to the working directory, and to directories that the operator allows.
			for i, to := range []string{filepath.Join(base, "work"), elsewhere} {
				name := fmt.Sprint("checkpoint-", i+2)
				w.write(filepath.Join(to, strings.TrimPrefix(dir, link), name, "model"), "x")
				put(to)
				require.Contains(t, w.checkpointNames(w.scan(time.Unix(1002, 0), true)), name)
			}
		})
	}
}

// A broken link and a link to an existing file elsewhere must look the same.
func TestACheckpointDoesNotTellWhatThereIsElsewhere(t *testing.T) {
	w := newWatched(t)
	var said []string
	w.remark = func(text string) { said = append(said, text) }
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(w.out, "a")))
	require.NoError(t, os.Symlink("/etc/passwd.no-such", filepath.Join(w.out, "b")))
	require.NoError(t, os.Symlink("/", filepath.Join(w.out, "root")))
	for _, path := range []string{"a", "b", "root/etc", "root/no-such"} {
		w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": %q}`, path))
	}
	w.announce(`{"event": "checkpoint", "path": "no-such"}`)
	require.Empty(t, w.scan(time.Unix(1000, 0), false))
	require.Len(t, said, 5)
	for _, text := range said[:4] {
		require.Contains(t, text, "it is outside of the directories that the job may register")
	}
	require.Contains(t, said[4], "no such file or directory")
}

// A link in a checkpoint must not reveal the length of its target.
func TestALinkThatLeadsOutOfACheckpointTellsNothing(t *testing.T) {
	secret, w := secretOf(t), newWatched(t)
	w.checkpoint("checkpoint-1")
	require.NoError(t, os.Symlink(secret, filepath.Join(w.out, "checkpoint-1", "link")))
	require.NoError(t, os.Symlink("model", filepath.Join(w.out, "checkpoint-1", "same")))
	require.NoError(t, unix.Mkfifo(filepath.Join(w.out, "checkpoint-1", "fifo"), 0o600))
	w.announce(`{"event": "checkpoint", "path": "checkpoint-1"}`)
	found := w.scan(time.Unix(1000, 0), false)
	require.Len(t, found, 1)
	first := found[0].Body.GetCheckpoint()
	require.EqualValues(t, 2, first.GetSizeBytes())
	require.NoError(t, os.WriteFile(secret, []byte("of another length"), 0o600))
	require.Equal(t, first.GetManifestDigest(), manifestIn(t, first.GetPath()).digest)
	require.NoError(t, Verify(t.Context(), &v1.ResumePoint{Path: first.GetPath(), ManifestDigest: first.GetManifestDigest()}))

	// A checkpoint that an earlier version registered is recognized.
	old := manifestIn(t, first.GetPath()).former[1]
	require.NotEqual(t, old, first.GetManifestDigest())
	require.NoError(t, Verify(t.Context(), &v1.ResumePoint{Path: first.GetPath(), ManifestDigest: old}))
	require.NoError(t, os.WriteFile(secret, []byte("changed since"), 0o600))
	require.Error(t, Verify(t.Context(), &v1.ResumePoint{Path: first.GetPath(), ManifestDigest: old}))
}

func TestAMillionCheckpointEventsAreNotAMillionReports(t *testing.T) {
	w := newWatched(t)
	w.events.Most = 16 << 20
	w.checkpoint("c")
	var events strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&events, `{"event":"checkpoint","path":"c","step":%d}`+"\n", i)
	}
	w.write(filepath.Join(w.dir, shim.EventsFile), events.String())
	var said []string
	w.remark = func(text string) { said = append(said, text) }
	began := w.events.BytesRead
	found := w.scan(time.Unix(1000, 0), true)
	require.LessOrEqual(t, w.events.BytesRead-began, int64(16<<20)+1<<20)
	require.LessOrEqual(t, len(found), maxFreshCheckpoints*16<<20/maxLookBytes)
	require.NotEmpty(t, found)
	require.LessOrEqual(t, len(said), maxRemarks)
	require.Contains(t, said[0], "are not registered: only the last 16 of those reported at once are")
}

func TestDirectoriesWithoutEndAreNotWalked(t *testing.T) {
	w := newWatched(t)
	w.checkpoints.most = 100
	old := time.Now().Add(-time.Hour)
	for _, big := range []string{"wide", "deep"} {
		for i := range 150 {
			name := filepath.Join("tmp-"+big, fmt.Sprint(i))
			if big == "deep" {
				name = filepath.Join("tmp-"+big, strings.Repeat("d/", i))
			}
			require.NoError(t, os.MkdirAll(filepath.Join(w.out, name), 0o700))
			require.NoError(t, os.Chtimes(filepath.Join(w.out, name), old, old))
		}
		w.rename("tmp-"+big, big)
		require.NoError(t, os.Chtimes(filepath.Join(w.out, big), old, old))
	}
	w.checkpoint("checkpoint-1")
	w.endedWell = true
	var found []Finding
	for looks := 0; len(found) == 0; looks++ {
		require.Less(t, looks, 4, "what cannot be looked at to its end keeps nothing from what can be")
		found = w.scan(time.Unix(1000, 0), true)
	}
	require.Equal(t, []string{"checkpoint-1"}, w.checkpointNames(found))
	require.Contains(t, w.checkpoints.tooLarge, "wide")
	require.Contains(t, w.checkpoints.tooLarge, "deep")
	left := w.checkpoints.most
	_, _ = w.checkpoints.scan(t.Context(), w.places, true, time.Time{}, &left)
	require.Equal(t, w.checkpoints.most, left, "they are not walked again")
	var said []string
	w.remark = func(text string) { said = append(said, text) }
	w.announce(`{"event": "checkpoint", "path": "wide"}`)
	w.announce(`{"event": "checkpoint", "path": "deep"}`)
	require.Empty(t, w.scan(time.Unix(1000, 0), true))
	require.Contains(t, said[0], "it has too many files and directories")
	require.Contains(t, said[1], "directories in it are nested deeper than 64 levels")
}

// A task may write into the agent's journal. If an end in it counted, a running task could claim to have ended, and its
// GPUs would be given to other tasks.
func TestAJournalIsBelievedInWhatAWatcherWrites(t *testing.T) {
	w := newWatched(t)
	j := openJournal(w.dir)
	for _, body := range []*v1.Report{
		{Body: &v1.Report_Ended{Ended: &v1.TaskEnded{}}},
		{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 1}}},
		{Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}},
		{Body: &v1.Report_Transfer{Transfer: &v1.TransferReport{Path: "x"}}},
		{},
		{Body: &v1.Report_Phase{Phase: &v1.PhaseReport{Phase: v1.JobPhase_EVALUATING}}},
		{Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: "/etc", ManifestDigest: manifestIn(t, "/etc/ssl").digest}}},
	} {
		_, err := j.add(body, time.Unix(1000, 0), 0)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"EVALUATING"}, words(w.scan(time.Unix(1001, 0), false)))
	require.Len(t, w.journal.known, 1)
}
