package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
)

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func readPID(t *testing.T, file string) int {
	t.Helper()
	var pid int
	eventually(t, "a pid in "+file, func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

func TestDev_sigtermLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	c := start(t)
	info, err := c.Info()
	require.NoError(t, err)
	require.Len(t, info.Coordinators, 3)
	require.Len(t, info.Agents, 2)
	ctx := within(t, time.Minute)
	file := filepath.Join(t.TempDir(), "pid")
	// This task ignores SIGTERM and has a child that left its session.
	_, err = procs.NewREST(info).Submit(ctx, "", procs.Command("stubborn", 1, "/bin/sh", "-c",
		fmt.Sprintf(`trap "" TERM USR1; setsid sh -c 'echo $$ > %s.child; exec sleep 1000' & echo $$ > %s; while :; do sleep 1; done`, file, file)))
	require.NoError(t, err)
	pids := []int{readPID(t, file), readPID(t, file+".child")}
	require.NoError(t, c.Stop())
	for _, pid := range pids {
		require.Falsef(t, alive(pid), "task process %d is left", pid)
	}
}

func TestMinority_writesAnswer503AndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	c, rest := startStopped(t)
	ctx := within(t, 2*time.Minute)
	ticks := filepath.Join(t.TempDir(), "ticks")
	id, err := rest.Submit(ctx, "", procs.Command("ticker", 1, "/bin/sh", "-c", "while :; do echo tick >> "+ticks+"; sleep 0.1; done"))
	require.NoError(t, err)
	eventually(t, "the job runs", func() bool { j, err := rest.Job(ctx, id); return err == nil && j.State == "RUNNING" })
	// A stale answer comes from the survivor's own state, so it must have the job before the others die.
	require.NoError(t, c.WaitCaughtUp(ctx))
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	info, err := c.Info()
	require.NoError(t, err)
	require.NoError(t, c.Kill(leader))
	for _, p := range info.Coordinators {
		if p.ID != leader.ID {
			require.NoError(t, c.Kill(p))
			break
		}
	}

	_, err = rest.Submit(ctx, "", procs.Command("refused", 1, "true"))
	var refused *procs.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusServiceUnavailable, refused.HTTP, err)

	var stale procs.Job
	require.NoError(t, rest.Get(ctx, "/jobs/"+id+"?consistency=stale", &stale))
	require.Equal(t, "RUNNING", stale.State)

	size := func() int64 {
		fi, err := os.Stat(ticks)
		require.NoError(t, err)
		return fi.Size()
	}
	before := size()
	eventually(t, "the job keeps running", func() bool { return size() > before+20 })
}

func TestFollowerKilled_everyCallIsAnswered(t *testing.T) {
	t.Parallel()
	c, rest := startStopped(t)
	ctx := within(t, time.Minute)
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	info, err := c.Info()
	require.NoError(t, err)
	var dead procs.Component
	for _, p := range info.Coordinators {
		if p.ID != leader.ID {
			dead = p
			require.NoError(t, c.Kill(p))
			break
		}
	}
	for i := range 30 {
		id, err := rest.Submit(ctx, "", procs.Command("after-"+strconv.Itoa(i), 1, "true"))
		require.NoError(t, err)
		_, err = rest.Job(ctx, id)
		require.NoError(t, err)
		require.NoError(t, rest.Get(ctx, "/queue", nil))
	}

	raft := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, mind, append([]string{"raft"}, args...)...)
		cmd.Env = append(os.Environ(), "MIND_DEV="+c.Dir, "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	leader, err = c.Leader(ctx) // a slow machine may have elected the other one meanwhile
	require.NoError(t, err)
	out, err := raft("remove", leader.ID)
	require.Error(t, err)
	require.Contains(t, out, "hand leadership over first")
	out, err = raft("remove", dead.ID)
	require.NoError(t, err, out)
	out, err = raft("remove", dead.ID)
	require.Error(t, err, "it is not there any more")
	require.Contains(t, out, dead.ID)
	out, err = raft("peers")
	require.NoError(t, err, out)
	require.NotContains(t, out, dead.ID+" ")
	_, err = rest.Submit(ctx, "", procs.Command("after-removal", 1, "true"))
	require.NoError(t, err)
}

func TestAgentKilled_theJobDoesNotNotice(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ untilRestart time.Duration }{
		"it comes back while the job runs":   {0},
		"the job ends while it is not there": {3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c, rest := startStopped(t, "--agents", "1")
			ctx := within(t, 2*time.Minute)
			mark := filepath.Join(t.TempDir(), "done")
			id, err := rest.Submit(ctx, "", procs.Command("survivor", 1, "/bin/sh", "-c", "sleep 2; echo done >> "+mark+"; exit 7"))
			require.NoError(t, err)
			eventually(t, "the job runs", func() bool { j, err := rest.Job(ctx, id); return err == nil && j.State == "RUNNING" })
			info, err := c.Info()
			require.NoError(t, err)
			require.NoError(t, c.Kill(info.Agents[0]))
			if tc.untilRestart > 0 {
				eventually(t, "the job ends without its agent", func() bool { _, err := os.Stat(mark); return err == nil })
			}
			agent, err := c.Restart(info.Agents[0])
			require.NoError(t, err)
			t.Cleanup(func() {
				_ = agent.Process.Signal(syscall.SIGTERM)
				_ = agent.Wait()
			})
			j, err := rest.WaitEnded(ctx, id)
			require.NoError(t, err)
			require.Equal(t, "FAILED", j.State)
			require.NotNil(t, j.ExitCode)
			require.Equal(t, 7, *j.ExitCode)
			require.Equal(t, "EXIT_NONZERO", j.ErrorType)
			require.Equal(t, 1, j.Attempt)
			text, err := os.ReadFile(mark)
			require.NoError(t, err)
			require.Equal(t, "done\n", string(text), "the job ran once, to its end")
		})
	}
}

func TestGang_getsAllItsNodesAtOnce(t *testing.T) {
	t.Parallel()
	_, rest := startStopped(t, "--gpus", "8xH100")
	ctx := within(t, time.Minute)
	out := t.TempDir()
	gang := procs.Command("gang", 16, "/bin/sh", "-c", `echo "$MIND_NODE_RANK/$MIND_NNODES $MIND_GPUS_PER_NODE $PET_NNODES*$PET_NPROC_PER_NODE $CUDA_VISIBLE_DEVICES" > `+out+`/$MIND_NODE_RANK`)
	gang["resource_config"] = map[string]any{"gpu_count": 16, "node_count": 2, "gpu_type": "H100"}
	id, err := rest.Submit(ctx, "", gang)
	require.NoError(t, err)
	j, err := rest.WaitEnded(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", j.State, j.ErrorMessage)
	require.Len(t, j.Nodes, 2)
	for rank := range 2 {
		text, err := os.ReadFile(filepath.Join(out, strconv.Itoa(rank)))
		require.NoError(t, err)
		require.Regexp(t, fmt.Sprintf(`^%d/2 8 2\*8 \S+`, rank), string(text))
	}
}

func TestRestart_resumesFromItsDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := within(t, 2*time.Minute)
	c, err := procs.Start(ctx, mind, dir)
	require.NoError(t, err)
	info, err := c.Info()
	require.NoError(t, err)
	id, err := procs.NewREST(info).Submit(ctx, "", procs.Command("first", 1, "true"))
	require.NoError(t, err)
	_, err = procs.NewREST(info).WaitEnded(ctx, id)
	require.NoError(t, err)
	// This job is interrupted by the stop, and exits as if it had finished.
	mark := filepath.Join(t.TempDir(), "attempts")
	cut, err := procs.NewREST(info).Submit(ctx, "", procs.Command("cut", 1, "/bin/sh", "-c",
		`echo "$MIND_ATTEMPT" >> `+mark+`; [ "$MIND_ATTEMPT" = 1 ] || exit 0; trap "exit 0" TERM USR1; while :; do sleep 0.1; done`))
	require.NoError(t, err)
	eventually(t, "the job runs", func() bool { _, err := os.Stat(mark); return err == nil })
	require.NoError(t, c.Stop())

	c, err = procs.Start(ctx, mind, dir)
	require.NoError(t, err)
	info, err = c.Info()
	require.NoError(t, err)
	j, err := procs.NewREST(info).Job(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", j.State)
	j, err = procs.NewREST(info).WaitEnded(ctx, cut)
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", j.State, j.ErrorMessage)
	require.Equal(t, 2, j.Attempt, "what was cut off had not succeeded, and was run again")
	text, err := os.ReadFile(mark)
	require.NoError(t, err)
	require.Equal(t, "1\n2\n", string(text))
	require.NoError(t, c.Stop())
}

func TestCommandLine_submitWaitCarriesTheExitCode(t *testing.T) {
	t.Parallel()
	c, _ := startStopped(t)
	info, err := c.Info()
	require.NoError(t, err)
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(within(t, time.Minute), mind, args...)
		cmd.Env = append(os.Environ(), "MIND_ADDR="+info.Gateway.URL, "MIND_TOKEN="+info.Token, "HOME="+t.TempDir())
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			require.NoError(t, err)
		}
		return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
	}
	id, code := run("submit", "--gpus", "1", "--wait", "--", "sh", "-c", "echo hello; exit 9")
	require.Equal(t, 9, code)
	require.Regexp(t, `^job_\w+$`, id)
	logs, code := run("logs", id)
	require.Zero(t, code)
	require.Contains(t, logs, "hello")
	_, code = run("job", "job_nosuch")
	require.Equal(t, 1, code)
	_, code = run("submit", "--no-such-flag")
	require.Equal(t, 2, code)
}

func TestBadInput_answersTheRightCodeAndChangesNothing(t *testing.T) {
	t.Parallel()
	_, rest := startStopped(t)
	ctx := within(t, 2*time.Minute)
	done, err := rest.Submit(ctx, "", procs.Command("done", 1, "true"))
	require.NoError(t, err)
	_, err = rest.WaitEnded(ctx, done)
	require.NoError(t, err)

	training := `{"name":"t","training_config":{"training_type":"LORA","base_model":{"model_id":"m"},"framework":{"type":"HF_TRAINER"}},"data_config":{"sources":[{"path":"file:///d"}]},"resource_config":{"gpu_count":%s}}`
	twice := strings.Replace(fmt.Sprintf(training, "1"), `{"training_type"`, `{"priority":3,"training_type"`, 1)
	twice = strings.TrimSuffix(twice, "}") + `,"scheduling_config":{"priority":4}}`
	strangers := *rest
	strangers.Token = "wrong"
	for name, tc := range map[string]struct {
		rest         *procs.REST
		method, path string
		body         string
		http         int
		says         string
	}{
		"malformed JSON":             {method: "POST", path: "/jobs", body: `{"name": "x",`, http: 422},
		"unknown enum":               {method: "POST", path: "/jobs", body: strings.Replace(fmt.Sprintf(training, "1"), "LORA", "LORAX", 1), http: 422, says: ""},
		"gpu_count 0 in a training":  {method: "POST", path: "/jobs", body: fmt.Sprintf(training, "0"), http: 400, says: "gpu_count"},
		"empty argv":                 {method: "POST", path: "/jobs", body: `{"name":"x","command_config":{"argv":[],"cwd":"/"}}`, http: 400, says: "argv"},
		"missing cwd":                {method: "POST", path: "/jobs", body: `{"name":"x","command_config":{"argv":["true"]}}`, http: 400, says: "cwd"},
		"2 MiB body":                 {method: "POST", path: "/jobs", body: `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, http: 413},
		"wrong token":                {rest: &strangers, method: "GET", path: "/jobs", http: 401},
		"unknown job":                {method: "GET", path: "/jobs/job_zzzz", http: 404},
		"cancel of an unknown job":   {method: "POST", path: "/jobs/job_zzzz/cancel", http: 404},
		"cancel of a finished job":   {method: "POST", path: "/jobs/" + done + "/cancel", http: 409},
		"unknown queue":              {method: "POST", path: "/jobs", body: `{"name":"x","command_config":{"argv":["true"],"cwd":"/"},"scheduling_config":{"queue":"nosuch"}}`, http: 400, says: "default"},
		"unknown gpu type":           {method: "POST", path: "/jobs", body: `{"name":"x","command_config":{"argv":["true"],"cwd":"/"},"resource_config":{"gpu_count":1,"gpu_type":"Z9"}}`, http: 400, says: "Z9"},
		"priority given twice":       {method: "POST", path: "/jobs", body: twice, http: 400, says: "priority"},
		"no such path":               {method: "GET", path: "/nosuch", http: 404},
		"page token of nobody":       {method: "GET", path: "/jobs?page_token=bogus", http: 400},
		"a queue without weight":     {method: "PUT", path: "/queues/light", body: `{"weight":0}`, http: 400, says: "weight"},
		"a method that is not there": {method: "DELETE", path: "/jobs", http: 405},
	} {
		t.Run(name, func(t *testing.T) {
			r := rest
			if tc.rest != nil {
				r = tc.rest
			}
			var body any
			if tc.body != "" {
				body = []byte(tc.body)
			}
			err := r.Do(ctx, tc.method, tc.path, nil, body, nil)
			var refused *procs.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, tc.http, refused.HTTP, err)
			require.Contains(t, refused.Message, tc.says)
			require.Greater(t, len(refused.Message), 10, "an error says what to do")
		})
	}
	all, err := rest.Jobs(ctx, "")
	require.NoError(t, err)
	require.Len(t, all, 1, "nothing half-done")

	missing := procs.Command("cwd", 1, "true")
	missing["command_config"].(map[string]any)["cwd"] = "/no/such/directory"
	id, err := rest.Submit(ctx, "", missing)
	require.NoError(t, err)
	j, err := rest.WaitEnded(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "CWD_MISSING", j.ErrorType)
	require.Contains(t, j.ErrorMessage, "/no/such/directory")
}

func TestCommandLine_chaosAttacksAClusterThatIsThere(t *testing.T) {
	c, _ := startStopped(t)
	chaos := func(args ...string) (stdout, stderr string, code int) {
		cmd := exec.CommandContext(within(t, 5*time.Minute), mind, append([]string{"chaos"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			require.NoError(t, err)
		}
		return strings.TrimSpace(string(out)), said.String(), cmd.ProcessState.ExitCode()
	}
	devJSON := filepath.Join(c.Dir, "dev.json")
	out, said, code := chaos("kill-leader", "--rounds", "1", "--jobs", "3", "--clients", "1", "--dev-json", devJSON)
	require.Zero(t, code, said)
	lines := strings.Split(out, "\n")
	require.Regexp(t, `^scenario=kill-leader rounds=1 faults=kill-leader:1 .* harmed=0 lost=0 doubled=0 double_live=0 `, lines[len(lines)-1])
	require.Contains(t, out, "kept    no acknowledged job is lost")
	info, err := c.Info()
	require.NoError(t, err)
	for _, p := range info.Coordinators {
		require.Truef(t, c.Ready(t.Context(), p), "%s was started again, as mind dev does not", p.ID)
	}

	_, said, code = chaos("partition", "--dev-json", devJSON)
	require.Equal(t, 2, code, said)
	require.Contains(t, said, "share one network")
	_, said, code = chaos("kill-agent", "--dev-json", filepath.Join(t.TempDir(), "dev.json"))
	require.Equal(t, 1, code)
	require.Contains(t, said, "is `mind dev` running?")
	_, _, code = chaos("kill-agent", "--rounds", "0")
	require.Equal(t, 2, code)
}
