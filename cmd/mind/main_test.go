package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/coordinator"
	"github.com/mindcoordinator/mind/devcluster"
	"github.com/mindcoordinator/mind/devcluster/testrun"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/oidc"
)

// binary is the program under test, built once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "mind-under-test-"+time.Now().Format("150405.000000"))
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	os.Exit(testrun.Main(func() int {
		code := m.Run()
		if path, err := binary(); err == nil {
			_ = os.Remove(path)
		}
		return code
	}))
}

func theBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the binary and starts processes")
	}
	path, err := binary()
	require.NoError(t, err)
	return path
}

// walk visits the visible commands, except cobra's own.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "completion" && c.Name() != "help" {
			visit(c)
			walk(c, visit)
		}
	}
}

func TestCommands_eachSaysWhatItDoesAndShowsHow(t *testing.T) {
	seen := map[string]bool{}
	walk(newRoot(), func(c *cobra.Command) {
		seen[strings.TrimPrefix(c.CommandPath(), "mind ")] = true
		require.NotEmptyf(t, c.Short, "%s", c.CommandPath())
		require.NotEmptyf(t, c.Example, "%s has no example", c.CommandPath())
		require.Containsf(t, c.Example, "mind "+strings.Fields(c.CommandPath())[1], "%s", c.CommandPath())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			require.NotContainsf(t, value, " ", "%s --%s: what is quoted in its usage is taken for the kind of its value", c.CommandPath(), f.Name)
		})
	})
	for _, name := range strings.Fields("dev coordinator agent gateway submit jobs job logs metrics cancel pause resume retry explain checkpoints queue queues nodes drain enable top version") {
		require.Truef(t, seen[name], "mind %s", name)
	}
	require.True(t, seen["raft peers"] && seen["raft transfer"])
}

func TestComponents_helpListsEveryKey(t *testing.T) {
	for name, keys := range map[string][]settings.Key{
		"coordinator": coordinatorKeys(&coordinator.Config{}),
		"agent":       agentKeys(&agent.Config{}),
		"gateway":     gatewayKeys(&gateway.Config{}, &oidc.Config{}),
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{name, "--help"})
		require.NoError(t, root.Execute())
		for _, k := range keys {
			require.Regexp(t, `(?m)^  `+k.Name+` `, out.String(), name)
			require.Contains(t, out.String(), "--"+k.Flag(), name)
			help := strings.Contains(k.Help, "default") || strings.Contains(k.Help, "required") || strings.HasPrefix(k.Name, "cert_") ||
				strings.HasPrefix(k.Name, "key_") || strings.HasPrefix(k.Name, "ca_") || strings.HasPrefix(k.Name, "http_") ||
				strings.HasSuffix(k.Name, "_join") || k.Name == "peers" || k.Name == "join_via" || k.Name == "labels" || k.Name == "tokens" || k.Name == "keep_tasks_for"
			require.Truef(t, help, "%s of %s says neither its default nor that it is required", k.Name, name)
		}
	}
}

// TestDev_writesConfigurationsThatTheComponentsTake makes devcluster write its files, and reads them like the commands.
func TestDev_writesConfigurationsThatTheComponentsTake(t *testing.T) {
	var mu sync.Mutex
	faults, read := map[string]error{}, map[string]bool{}
	done := make(chan struct{})
	check := func(ctx context.Context, args []string) error {
		var err error
		none := func(string) (string, bool) { return "", false }
		load := func(keys []settings.Key) error {
			return settings.Bind(newRoot().Flags(), append(keys, (&logging{}).keys()...)).Load(args[2], none)
		}
		switch args[0] {
		case "coordinator":
			c := coordinator.Config{}
			if err = load(coordinatorKeys(&c)); err == nil {
				err = c.Validate()
			}
			err = errors.Join(err, orFault(len(c.Peers) == 3 && len(c.GossipKey) == 32 && c.APISecret != "" && c.CertFile != "", "something is not set"))
		case "agent":
			c := agent.Config{}
			if err = load(agentKeys(&c)); err == nil {
				err = c.Validate()
			}
			err = errors.Join(err, orFault(len(c.Coordinators) == 3 && c.GPUs == "4xA100" && c.StopTasksOnExit && c.TLS.Key != "", "something is not set"))
		case "gateway":
			c := gateway.Config{}
			if err = load(gatewayKeys(&c, &oidc.Config{})); err == nil {
				err = c.Validate()
			}
			err = errors.Join(err, orFault(len(c.Tokens) == 1 && len(c.Tokens[0].Permissions) == 6 && c.Tokens[0].Tenant == "default", "something is not set"))
		}
		mu.Lock()
		faults[args[0]] = errors.Join(faults[args[0]], err)
		read[args[2]] = true
		if len(read) == 6 {
			close(done)
		}
		mu.Unlock()
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-done
		cancel()
	}()
	_, err := devcluster.Start(ctx, devcluster.Options{
		Agents: 2, GPUs: "4xA100", HTTP: "127.0.0.1:0", InProcess: check, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, map[string]error{"coordinator": nil, "agent": nil, "gateway": nil}, faults)
}

func orFault(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

func TestComponents_misuseIsExitCode2(t *testing.T) {
	mind := theBinary(t)
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("id: c1\ndata-dir: /x\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		env  string
		code int
		want string
	}{
		"help":              {args: []string{"--help"}},
		"version":           {args: []string{"version"}},
		"completion":        {args: []string{"completion", "bash"}},
		"unknown command":   {args: []string{"frobnicate"}, code: 2, want: `there is no command mind "frobnicate"`},
		"unknown flag":      {args: []string{"dev", "--frob"}, code: 2, want: "mind dev --help"},
		"unknown key":       {args: []string{"coordinator", "--config", file}, code: 2, want: `c.yaml:2: there is no key "data-dir" (did you mean "data_dir"?)`},
		"bad variable":      {args: []string{"agent"}, env: "MIND_CPUS=many", code: 2, want: `MIND_CPUS: "many" is not a whole number`},
		"bad key":           {args: []string{"coordinator", "--gossip-key", "???"}, code: 2, want: "not base64"},
		"bad peers":         {args: []string{"coordinator", "--peers", "c1"}, code: 2, want: "ID=RAFT/GRPC/HTTP"},
		"no such file":      {args: []string{"gateway", "--config", "/nowhere/x.yaml"}, code: 2, want: "/nowhere/x.yaml"},
		"bad level":         {args: []string{"gateway", "--log-level", "loud"}, code: 2, want: "debug, info, warn or error"},
		"incomplete":        {args: []string{"coordinator", "--id", "c1"}, code: 2, want: "mind coordinator needs data_dir, grpc_addr"},
		"no node":           {args: []string{"agent"}, code: 2, want: "mind agent needs node_id, data_dir, coordinators: set it in --config FILE"},
		"wrong number":      {args: []string{"dev", "--coordinators", "2"}, code: 2, want: "1, 3 or 5"},
		"no GPUs":           {args: []string{"dev", "--gpus", "banana"}, code: 2, want: "want COUNTxMODEL, such as 8xH100"},
		"nobody to talk to": {args: []string{"jobs"}, env: "MIND_ADDR=http://127.0.0.1:1", code: 1, want: "mind dev"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(mind, c.args...)
			cmd.Env = append(os.Environ(), c.env)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			code := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.code, code, stderr.String())
			require.Contains(t, stderr.String(), c.want)
		})
	}
}

func TestObey_onlyAnImpatientInterruptCutsTheShutdownShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, codes := make(chan os.Signal, 4), make(chan int, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go obey(signals, cancel, func(code int) { codes <- code })
		signals <- syscall.SIGTERM
		<-ctx.Done()
		signals <- syscall.SIGTERM
		signals <- os.Interrupt // together with the first one, as a terminal sends it to a process group
		synctest.Wait()
		time.Sleep(impatience)
		signals <- syscall.SIGTERM
		synctest.Wait()
		require.Empty(t, codes)
		signals <- os.Interrupt
		require.Equal(t, 130, <-codes)
	})
}

// mindDev is a running `mind dev` of real processes.
type mindDev struct {
	cmd      *exec.Cmd
	info     devcluster.Info
	dir      string
	messages string // the file with its stderr
}

func startDev(t *testing.T, args ...string) *mindDev {
	t.Helper()
	d := &mindDev{dir: filepath.Join(t.TempDir(), "d")}
	d.cmd = exec.Command(theBinary(t), append([]string{"dev", "--data-dir", d.dir, "--http", "127.0.0.1:0", "--gpus", "8xH100"}, args...)...)
	messages, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer messages.Close()
	d.cmd.Stderr, d.messages = messages, messages.Name()
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, d.cmd.Start())
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	line := make([]byte, 256)
	n, _ := out.Read(line)
	require.Regexp(t, regexp.MustCompile(`^ready http://127\.0\.0\.1:\d+\n$`), string(line[:n]), "see %s", messages.Name())
	t.Logf("ready after %s", time.Since(began))
	d.info, err = devcluster.ReadInfo(d.dir)
	require.NoError(t, err)
	return d
}

// cli runs a command against the cluster.
func (d *mindDev) cli(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(theBinary(t), args...)
	cmd.Env = append(os.Environ(), "MIND_DEV="+d.dir, "MIND_ADDR=", "MIND_TOKEN=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (d *mindDev) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // like `timeout`
	require.NoError(t, d.cmd.Wait())
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range all {
		cmdline, _ := os.ReadFile(file)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		require.NotContains(t, string(cmdline)+string(environ), d.dir+"/", "a process is left")
	}
}

func TestDev_runsJobsThroughTheCommandLine(t *testing.T) {
	d := startDev(t)
	answer, err := http.Get(d.info.Gateway.URL + "/health/ready")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	stdout, stderr, code := d.cli(t, "submit", "--gpus", "2", "--follow", "--wait", "--", "sh", "-c", "echo one; echo two; exit 7")
	require.Equal(t, 7, code, stderr)
	id, log, _ := strings.Cut(stdout, "\n")
	require.Regexp(t, `^job_[0-9a-z]+$`, id)
	require.Equal(t, "one\ntwo\n", log)
	require.Contains(t, stderr, "EXIT_NONZERO")

	stdout, stderr, code = d.cli(t, "logs", "--tail", "1", id)
	require.Zero(t, code, stderr)
	require.Equal(t, "two\n", stdout)

	stdout, stderr, code = d.cli(t, "nodes")
	require.Zero(t, code, stderr)
	require.Equal(t, 2, strings.Count(stdout, "8xH100 (simulated)"))

	stdout, stderr, code = d.cli(t, "raft", "peers")
	require.Zero(t, code, stderr)
	require.Equal(t, 1, strings.Count(stdout, " leader "))
	require.Equal(t, 2, strings.Count(stdout, " follower "))

	stdout, stderr, code = d.cli(t, "submit", "--", "sleep", "600")
	require.Zero(t, code, stderr)
	sleeper := strings.TrimSpace(stdout)
	_, stderr, code = d.cli(t, "cancel", sleeper)
	require.Zero(t, code, stderr)
	_, stderr, code = d.cli(t, "cancel", id)
	require.Equal(t, 1, code)
	require.NotEmpty(t, stderr)

	for _, args := range [][]string{{"jobs"}, {"job", id}, {"explain", id}, {"queue"}, {"queues"}, {"top"}, {"checkpoints", id}, {"jobs", "-o", "yaml"}} {
		_, stderr, code = d.cli(t, args...)
		require.Zero(t, code, "%v: %s", args, stderr)
	}
	_, stderr, code = d.cli(t, "submit", "--", "sleep", "600") // runs when the cluster is stopped
	require.Zero(t, code, stderr)
	d.stop(t)
}

func TestDev_stopsTasksWhoseAgentWasKilled(t *testing.T) {
	d := startDev(t, "--coordinators", "1", "--agents", "1")
	stdout, stderr, code := d.cli(t, "submit", "--", "sh", "-c", "trap '' TERM USR1; sleep 600 & wait; wait")
	require.Zero(t, code, stderr)
	id := strings.TrimSpace(stdout)
	require.Eventually(t, func() bool {
		stdout, stderr, code := d.cli(t, "job", id)
		require.Zero(t, code, stderr)
		return strings.Contains(stdout, "TRAINING")
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, syscall.Kill(d.info.Agents[0].Pid, syscall.SIGKILL))
	d.stop(t)
}

func TestDev_inProcess(t *testing.T) {
	d := startDev(t, "--in-process", "--agents", "1")
	require.Equal(t, d.cmd.Process.Pid, d.info.Coordinators[0].Pid)
	stdout, stderr, code := d.cli(t, "submit", "--wait", "--", "true")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^job_[0-9a-z]+\n$`, stdout)
	d.stop(t)
	said, err := os.ReadFile(d.messages)
	require.NoError(t, err)
	require.NotContains(t, string(said), "warning", "nobody else reaches it")
}

func TestDev_warnsOfWhatOtherMachinesReach(t *testing.T) {
	d := startDev(t, "--in-process", "--coordinators", "1", "--agents", "0", "--http", "0.0.0.0:0", "--quiet")
	_, port, _ := strings.Cut(strings.TrimPrefix(d.info.Gateway.URL, "http://"), ":")
	d.stop(t)
	said, err := os.ReadFile(d.messages)
	require.NoError(t, err)
	require.NotContains(t, string(said), "level=", "it was told to be quiet")
	for _, what := range []string{"mind: warning: the gateway listens on 0.0.0.0:" + port, "without TLS", "the token", "mind dev --http 127.0.0.1:" + port} {
		require.Contains(t, string(said), what)
	}
}
