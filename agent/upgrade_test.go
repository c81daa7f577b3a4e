package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// install installs a copy of the executable, as a package manager installs a new version.
func install(t *testing.T, path string) {
	t.Helper()
	in, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, os.Rename(path+".new", path))
}

// terminate ends an agent as an upgrade does.
func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

func TestAnUpgradeInPlaceHarmsNoTask(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	dir := t.TempDir()
	binary := filepath.Join(dir, "mind")
	install(t, binary)
	talker := func(name string, code int) *v1.TaskOrder {
		return onGPUs(order("sh", "-c", fmt.Sprintf("i=0; while :; do i=$((i+1)); echo line $i; [ ! -e %s/%s ] || break; sleep 0.005; done; echo last $i; exit %d", dir, name, code)), int32(code-50))
	}
	early, meanwhile, late := talker("early", 51), talker("meanwhile", 52), talker("late", 53)
	open := func(name string) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600)) }
	first := processOf(t, cfg, binary)
	l.want(early, meanwhile, late)
	pids := map[*v1.TaskOrder]int{}
	for _, o := range []*v1.TaskOrder{early, meanwhile, late} {
		pids[o] = l.running(o.GetTask())
	}
	open("early")
	require.EqualValues(t, 51, l.ended(early.GetTask()).GetExitCode())
	terminate(t, first)

	open("meanwhile")
	exit := filepath.Join(cfg.DataDir, "tasks", taskid.Of(meanwhile.GetTask()).Name(), shim.ExitFile)
	require.Eventually(t, func() bool { _, err := os.Stat(exit); return err == nil }, 30*time.Second, time.Millisecond)
	require.True(t, alive(pids[late]))
	install(t, binary)
	l.change(func() { l.reports = nil })
	second := processOf(t, cfg, binary)
	end := l.ended(meanwhile.GetTask())
	require.EqualValues(t, 52, end.GetExitCode())
	require.Equal(t, v1.ErrorType_EXIT_NONZERO, end.GetErrorType())
	require.Equal(t, []string{"Running", "Ended"}, l.course(meanwhile.GetTask()))
	require.Equal(t, pids[late], l.running(late.GetTask()))
	// The agent is upgraded once more, without any change in between.
	terminate(t, second)
	install(t, binary)
	processOf(t, cfg, binary)
	l.hello(2)
	open("late")
	require.EqualValues(t, 53, l.ended(late.GetTask()).GetExitCode())

	client := taskClient(t, l.hello(2))
	for _, o := range []*v1.TaskOrder{early, meanwhile, late} {
		lines, _, eof := readLog(t, client, &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1})
		require.True(t, eof)
		require.Greater(t, len(lines), 1)
		for i, line := range lines[:len(lines)-1] {
			require.Equal(t, "line "+strconv.Itoa(i+1), line)
		}
		require.Equal(t, "last "+strconv.Itoa(len(lines)-1), lines[len(lines)-1])
		require.NotContains(t, l.kinds(o.GetTask()), "Starting")
	}
}

func TestATaskOfANewerAgentIsLetBe(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	stop := inProcess(t, cfg)
	gate := filepath.Join(t.TempDir(), "gate")
	o := onGPUs(order("sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.01; done; exit 31"), 0)
	l.want(o)
	pid := l.running(o.GetTask())
	stop()
	record := filepath.Join(cfg.DataDir, "tasks", taskid.Of(o.GetTask()).Name(), shim.SpecFile)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	newer := regexp.MustCompile(`^version "\d+"`).ReplaceAllString(string(text), `version "99"`)
	require.NotEqual(t, string(text), newer)
	require.NoError(t, os.WriteFile(record, []byte(newer), 0o600))
	_, err = runner.Attach(filepath.Dir(record), "")
	require.ErrorContains(t, err, "a newer agent launched it")

	l.change(func() { l.reports = nil })
	onGPU, onCPU := onGPUs(order("test", "-e", gate), 1), order("true")
	l.want(o, onGPU, onCPU)
	stop = inProcess(t, cfg)
	require.Zero(t, l.ended(onCPU.GetTask()).GetExitCode())
	require.True(t, alive(pid))
	require.Empty(t, l.kinds(o.GetTask()), "nothing is known of it, and it is not launched again")
	require.Empty(t, l.kinds(onGPU.GetTask()), "it may have any GPU")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.EqualValues(t, 31, l.ended(o.GetTask()).GetExitCode())
	require.Zero(t, l.ended(onGPU.GetTask()).GetExitCode())
	// Every version can read that the task has ended.
	stop()
	l.change(func() { l.reports = nil })
	inProcess(t, cfg)
	require.EqualValues(t, 31, l.ended(o.GetTask()).GetExitCode())
	again := onGPUs(order("true"), 0)
	l.want(again)
	require.Zero(t, l.ended(again.GetTask()).GetExitCode())
}

// In TestTheAgentIsKilledBetweenEveryTwoSteps the leader acknowledges nothing for the whole life of a task.
func TestTheAgentIsKilledBetweenEveryTwoSteps(t *testing.T) {
	l := newLeader(t)
	l.deaf = true
	cfg := testConfig(t, l)
	gate := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.01; done; exit 3")
	ref := o.GetTask()
	dir := filepath.Join(cfg.DataDir, "tasks", taskid.Of(ref).Name())
	checkpoints := filepath.Join(outputs.New(cfg.DataDir).Tenant(o.Spec.GetTenantId()), ref.GetJobId()+".checkpoints")
	announce := func(line string) {
		file, err := os.OpenFile(filepath.Join(dir, shim.EventsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(line + "\n")
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	save := func(step int) {
		aside := filepath.Join(checkpoints, fmt.Sprintf("tmp-%d", step))
		require.NoError(t, os.MkdirAll(aside, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(aside, "model"), []byte("weights"), 0o600))
		// The agent may not be running at the time of the rename. It infers the rename from the times, if the clock of
		// the file system has advanced.
		written, err := os.Stat(filepath.Join(aside, "model"))
		require.NoError(t, err)
		clock := filepath.Join(t.TempDir(), "clock")
		require.Eventually(t, func() bool {
			require.NoError(t, os.WriteFile(clock, nil, 0o600))
			now, err := os.Stat(clock)
			return err == nil && now.ModTime().After(written.ModTime())
		}, 30*time.Second, time.Millisecond)
		require.NoError(t, os.Rename(aside, filepath.Join(checkpoints, fmt.Sprintf("checkpoint-%d", step))))
	}
	checkpoint := func(step int64) func(*v1.Report) bool {
		return func(r *v1.Report) bool { return r.GetCheckpoint().GetStep() == step }
	}
	phase := func(p v1.JobPhase_Value) func(*v1.Report) bool {
		return func(r *v1.Report) bool { return r.GetPhase().GetPhase() == p }
	}
	steps := []struct {
		name string
		do   func()
		is   func(*v1.Report) bool
	}{
		{"launch", func() { l.want(o) }, func(r *v1.Report) bool { return r.GetRunning() != nil }},
		{"phase", func() { announce(`{"event": "phase", "phase": "TRAINING"}`) }, phase(v1.JobPhase_TRAINING)},
		{"checkpoint 1", func() { save(1) }, checkpoint(1)},
		{"checkpoint 2", func() { save(2); announce(`{"event": "checkpoint", "path": "checkpoint-2", "metrics": {"loss": 2}}`) }, checkpoint(2)},
		{"another phase", func() { announce(`{"event": "phase", "phase": "EVALUATING"}`) }, phase(v1.JobPhase_EVALUATING)},
		{"checkpoint 3", func() { save(3) }, checkpoint(3)},
		{"progress", func() { announce(`{"event": "progress", "step": 7, "total_steps": 9}`) }, func(r *v1.Report) bool { return r.GetProgress().GetStep() == 7 }},
		{"end", func() { require.NoError(t, os.WriteFile(gate, nil, 0o600)) }, func(r *v1.Report) bool { return r.GetEnded() != nil }},
	}
	var told []time.Time // the times of the events in the first agent's reports
	for _, step := range steps {
		cmd := process(t, cfg)
		step.do()
		told = append(told, l.reported(ref, step.name, step.is).GetTime().AsTime())
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		l.change(func() { l.reports = nil })
	}
	// One checkpoint is removed before it could be reported.
	require.NoError(t, os.RemoveAll(filepath.Join(checkpoints, "checkpoint-3")))

	l.change(func() { l.deaf = false })
	last := process(t, cfg)
	require.EqualValues(t, 3, l.ended(ref).GetExitCode())
	require.Equal(t, []string{"Running", "Checkpoint", "Checkpoint", "Phase", "Progress", "Ended"}, l.course(ref))
	require.Equal(t, v1.JobPhase_EVALUATING, l.reported(ref, "phase", func(r *v1.Report) bool { return r.GetPhase() != nil }).GetPhase().GetPhase())
	for i, step := range steps {
		switch step.name {
		case "launch", "checkpoint 1", "another phase", "end":
			require.Equal(t, told[i], l.reported(ref, step.name, step.is).GetTime().AsTime(), step.name)
		}
	}
	acked := func() bool {
		spec, err := shim.ReadSpec(dir)
		return err == nil && spec.Acked
	}
	require.Eventually(t, acked, 30*time.Second, time.Millisecond)
	terminate(t, last)

	// The leader has all reports: none is sent twice.
	l.change(func() { l.reports = nil })
	process(t, cfg)
	other := order("true")
	l.want(other)
	l.ended(other.GetTask())
	require.Empty(t, l.kinds(ref))
}

func TestATaskThatIsNotWantedRegistersNothing(t *testing.T) {
	l := newLeader(t)
	l.deaf = true
	cfg := testConfig(t, l)
	first := process(t, cfg)
	dir := t.TempDir()
	o := order("sh", "-c", fmt.Sprintf(`trap 'echo > %[1]s/asked; while [ ! -e %[1]s/gate ]; do sleep 0.01; done; mkdir $MIND_CHECKPOINT_DIR/tmp-9; echo x > $MIND_CHECKPOINT_DIR/tmp-9/f; mv $MIND_CHECKPOINT_DIR/tmp-9 $MIND_CHECKPOINT_DIR/checkpoint-9; exit 0' TERM; echo > %[1]s/up; while :; do sleep 0.01; done`, dir))
	exists := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	l.want(o)
	require.Eventually(t, exists("up"), 30*time.Second, time.Millisecond)
	l.want()
	require.Eventually(t, exists("asked"), 30*time.Second, time.Millisecond)
	// The next agent still knows that the task is not wanted, although it gets no orders for a while.
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	l.change(func() { l.reports, l.deaf, l.index = nil, false, 0 })
	process(t, cfg)
	l.hello(1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600))
	l.ended(o.GetTask())
	require.NotContains(t, l.kinds(o.GetTask()), "Checkpoint")
}

func TestResumeFromTheFirstCheckpointThatIsWhatItWas(t *testing.T) {
	base := t.TempDir()
	made := func(name, text string) *v1.ResumePoint {
		path := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(path, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(path, "model"), []byte(text), 0o600))
		sum := sha256.Sum256(fmt.Appendf(nil, "model %d\n", len(text)))
		return &v1.ResumePoint{Path: path, ManifestDigest: hex.EncodeToString(sum[:]), NodeId: "n7"}
	}
	good, older, changed, removed := made("good", "x"), made("older", "x"), made("changed", "x"), made("removed", "x")
	require.NoError(t, os.WriteFile(filepath.Join(changed.GetPath(), "more"), []byte("y"), 0o600))
	require.NoError(t, os.RemoveAll(removed.GetPath()))
	empty := &v1.ResumePoint{Path: filepath.Join(base, "empty")}
	require.NoError(t, os.Mkdir(empty.GetPath(), 0o755))
	for name, c := range map[string]struct {
		points []*v1.ResumePoint
		want   string
	}{
		"the newest":             {[]*v1.ResumePoint{good, older}, good.GetPath()},
		"an older one":           {[]*v1.ResumePoint{removed, changed, empty, older, good}, older.GetPath()},
		"none":                   {[]*v1.ResumePoint{removed, changed, empty}, ""},
		"one without its digest": {[]*v1.ResumePoint{{Path: good.GetPath()}}, good.GetPath()},
	} {
		t.Run(name, func(t *testing.T) {
			env := envOf(t, func(s *v1.TaskSpec) { s.ResumePoints, s.ResumeFrom = c.points, c.points[0].GetPath() })
			value, set := env["MIND_RESUME_FROM"]
			require.Equal(t, c.want != "", set)
			require.Equal(t, c.want, value)
		})
	}
}
