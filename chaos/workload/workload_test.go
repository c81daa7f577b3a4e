package workload

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func printed(l Life, n int) []string {
	var all []string
	hash := ""
	for i := range n {
		var text string
		text, hash = line(l.Job, l.Attempt, l.Rank, i, hash)
		all = append(all, text)
	}
	return all
}

func TestLines_everyFaultOfALogIsSeen(t *testing.T) {
	l := Life{Job: "job_1", Attempt: 1, Lines: 5, Ended: true}
	whole := printed(l, 5)
	killed := l
	killed.Ended = false
	other := printed(Life{Job: "job_2", Attempt: 1}, 5)
	changed := append([]string{}, whole...)
	changed[2] = strings.Replace(changed[2], " 2 ", " 2 0", 1)
	for name, tc := range map[string]struct {
		life           Life
		served         []string
		lost, repeated int
	}{
		"whole":                           {l, whole, 0, 0},
		"with what others printed":        {l, append([]string{"hello"}, whole...), 0, 0},
		"killed before it counted":        {killed, printed(l, 6), 0, 0},
		"more than a killed one could":    {killed, printed(l, 7), 0, 2},
		"one more than it printed":        {l, printed(l, 6), 0, 1},
		"none":                            {l, nil, 5, 0},
		"without the last":                {l, whole[:4], 1, 0},
		"without the first":               {l, whole[1:], 1, 0},
		"without one in the middle":       {l, append(append([]string{}, whole[:2]...), whole[3:]...), 1, 0},
		"one twice":                       {l, append(append([]string{}, whole[:3]...), whole[2:]...), 0, 1},
		"all twice":                       {l, append(append([]string{}, whole...), whole...), 0, 5},
		"of another job":                  {l, other, 0, 1},
		"of another job in the middle":    {l, append(append([]string{}, whole[:2]...), other[2]), 0, 1},
		"of an earlier attempt":           {Life{Job: "job_1", Attempt: 2, Lines: 5}, whole, 0, 1},
		"a line that nobody printed thus": {l, append(append([]string{}, whole[:2]...), whole[2]+"0", whole[3], whole[4]), 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			lost, repeated, why := Lines(tc.life, tc.served)
			require.Equal(t, tc.lost, lost, why)
			require.Equal(t, tc.repeated, repeated, why)
			require.Equal(t, tc.lost+tc.repeated == 0, why == "", why)
		})
	}
}

func TestOverlaps_onlyRanksOfOneAttemptMayLiveTogether(t *testing.T) {
	life := func(attempt, rank int, start, seen int64) Life {
		return Life{Job: "job_1", Attempt: attempt, Rank: rank, Start: start, Seen: seen}
	}
	for name, tc := range map[string]struct {
		lives []Life
		bad   int
	}{
		"one after the other":             {[]Life{life(1, 0, 0, 10), life(2, 0, 11, 20)}, 0},
		"a gang":                          {[]Life{life(1, 0, 0, 10), life(1, 1, 1, 10)}, 0},
		"a rank twice":                    {[]Life{life(1, 0, 0, 10), life(1, 0, 1, 10)}, 1},
		"two attempts":                    {[]Life{life(1, 0, 0, 10), life(2, 0, 10, 20)}, 1},
		"a rank of the attempt before":    {[]Life{life(1, 0, 0, 5), life(1, 1, 0, 10), life(2, 0, 6, 20)}, 1},
		"the attempt before the last too": {[]Life{life(1, 0, 0, 30), life(2, 0, 11, 20), life(3, 0, 21, 30)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, Overlaps(tc.lives), tc.bad)
		})
	}
}

// TestMain makes the test binary a workload: a lock only counts as taken if another process holds it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TEST_WORKLOAD"); dir != "" {
		code, err := Run(Spec{Dir: dir, Every: 10 * time.Millisecond, CheckpointEvery: 5, Weights: 10_000, Exit: 7}, os.Stdout)
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			code = 99
		}
		os.Exit(code)
	}
	os.Exit(testrun.Main(m.Run))
}

func startLife(t *testing.T, dir, attempt, from string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	checkpoints := filepath.Join(dir, "checkpoints")
	require.NoError(t, os.MkdirAll(checkpoints, 0o755))
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "TEST_WORKLOAD="+dir, "MIND_JOB_ID=job_1", "MIND_ATTEMPT="+attempt, "MIND_NODE_RANK=0", "CUDA_VISIBLE_DEVICES=3",
		"MIND_CHECKPOINT_DIR="+checkpoints, "MIND_RESUME_FROM="+from, "MIND_METRICS_FILE="+filepath.Join(dir, "agents/n1/tasks/t/metrics.jsonl"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &out
}

func awaitLife(t *testing.T, dir string, n int, ok func(Life) bool) Life {
	t.Helper()
	var found Life
	require.Eventually(t, func() bool {
		lives, err := Lives(dir, "job_1")
		if err != nil || len(lives) < n || !ok(lives[n-1]) {
			return false
		}
		found = lives[n-1]
		return true
	}, time.Minute, 10*time.Millisecond)
	return found
}

func TestRun_leavesEvidence(t *testing.T) {
	dir := t.TempDir()
	first, out := startLife(t, dir, "1", "")
	life := awaitLife(t, dir, 1, func(l Life) bool { return l.Lines > 12 })
	require.Equal(t, "n1", life.Node)
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	lives, err := Lives(dir, "job_1")
	require.NoError(t, err)
	require.False(t, lives[0].Ended)
	lost, repeated, why := Lines(lives[0], strings.Split(out.String(), "\n"))
	require.Zero(t, lost+repeated, why)

	from := filepath.Join(dir, "checkpoints", "a1-checkpoint-10")
	second, out := startLife(t, dir, "2", from)
	life = awaitLife(t, dir, 2, func(l Life) bool { return l.Lines > 6 })
	require.Equal(t, 10, life.Step)
	require.NoError(t, Finish(dir, ""))
	require.ErrorContains(t, second.Wait(), "exit status 7")
	lives, err = Lives(dir, "job_1")
	require.NoError(t, err)
	require.Len(t, lives, 2)
	require.True(t, lives[1].Ended)
	require.Empty(t, Overlaps(lives))
	lost, repeated, why = Lines(lives[1], strings.Split(out.String(), "\n"))
	require.Zero(t, lost+repeated, why)
	descent, err := os.ReadFile(filepath.Join(dir, "checkpoints", "a2-checkpoint-15", lineageFile))
	require.NoError(t, err)
	require.Equal(t, "1 5\n1 10\n2 15\nwhole\n", string(descent))
	require.NoError(t, CheckCheckpoint(from, "job_1", 1, 10, 10_000))
	require.NoError(t, CheckCheckpoint(filepath.Join(dir, "checkpoints", "a2-checkpoint-15"), "job_1", 2, 15, 10_000))
	violations, err := Violations(dir)
	require.NoError(t, err)
	require.Empty(t, violations)
}

func TestCheckCheckpoint_seesWhatIsTorn(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, WriteCheckpoint(dir, "job_1", 2, 15, 10_000, "1 5\n2 15\n"))
	path := filepath.Join(dir, "a2-checkpoint-15")
	check := func() error { return CheckCheckpoint(path, "job_1", 2, 15, 10_000) }
	require.NoError(t, check())
	require.ErrorContains(t, CheckCheckpoint(path, "job_1", 2, 20, 10_000), "line of descent")
	require.ErrorContains(t, CheckCheckpoint(path, "job_2", 2, 15, 10_000), "differ from byte")
	file := filepath.Join(path, weightsFile)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, torn := range map[string][]byte{
		"empty": {}, "cut off": whole[:4096], "zeros at the end": append(append([]byte{}, whole[:4096]...), make([]byte, 10_000-4096)...),
	} {
		require.NoError(t, os.WriteFile(file, torn, 0o644))
		require.ErrorContains(t, check(), "its weights have", name)
	}
	require.NoError(t, os.WriteFile(file, whole, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(path, lineageFile), []byte("1 5\n2 15\n"), 0o644))
	require.ErrorContains(t, check(), "line of descent")
	require.NoError(t, os.RemoveAll(path))
	require.ErrorIs(t, check(), os.ErrNotExist)
}

func TestRun_twoThatLiveAtOneTimeAreSeen(t *testing.T) {
	dir := t.TempDir()
	first, _ := startLife(t, dir, "1", "")
	awaitLife(t, dir, 1, func(l Life) bool { return l.Lines > 1 })
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.MkdirAll(broken, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(broken, lineageFile), []byte("1 5\n"), 0o644))
	second, _ := startLife(t, dir, "2", broken)
	require.Eventually(t, func() bool {
		violations, err := Violations(dir)
		return err == nil && len(violations) == 3
	}, time.Minute, 10*time.Millisecond, "the rank, the GPU, and the checkpoint that is not whole")
	require.NoError(t, Finish(dir, ""))
	require.Error(t, first.Wait())
	require.Error(t, second.Wait())
	lives, err := Lives(dir, "job_1")
	require.NoError(t, err)
	require.Len(t, Overlaps(lives), 1)
}
