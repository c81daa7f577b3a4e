package devcluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/devcluster/proc"
	"github.com/mindcoordinator/mind/devcluster/testrun"
	"github.com/mindcoordinator/mind/pki"
)

// TestMain makes the test binary a fake component: these tests cover starts, ends, and leftover processes. The tests of
// cmd/mind, which can import real components, cover their readiness.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case kindCoordinator, kindAgent, kindGateway:
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			if err := play(ctx, os.Args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(3)
			}
			os.Exit(0)
		case "supervise":
			superviseFor(os.Args[2])
			os.Exit(0)
		case "shim", "task":
			signal.Ignore(syscall.SIGTERM)
			select {}
		}
	}
	os.Exit(testrun.Main(m.Run))
}

// play serves the endpoints of a kind of component.
func play(ctx context.Context, args []string) error {
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	if args[0] == kindAgent && os.Getenv("BROKEN_AGENT") != "" {
		return fmt.Errorf("this agent is broken")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health/ready", func(http.ResponseWriter, *http.Request) {})
	if args[0] == kindGateway {
		token := config["tokens"].([]any)[0].(map[string]any)["token"].(string)
		mux.HandleFunc("/v1/modules/scaimind/cluster/nodes", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			nodes := []any{}
			agents, _ := filepath.Glob(filepath.Join(filepath.Dir(args[2]), "n*.yaml"))
			for _, a := range agents {
				nodes = append(nodes, map[string]any{"node_id": strings.TrimSuffix(filepath.Base(a), ".yaml"), "state": "READY", "roster_current": true})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"nodes": nodes}})
		})
	}
	l, err := net.Listen("tcp", config["http_addr"].(string))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	<-ctx.Done()
	return errors.Join(tell(os.Getenv("ENDS"), args[0]), server.Close())
}

// tell appends a word to a file. Without a name it does nothing.
func tell(file, word string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(word + "\n")
	return errors.Join(err, f.Close())
}

// superviseFor runs a cluster in dir until it is killed.
func superviseFor(dir string) {
	_, err := Start(context.Background(), options(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("up")
	select {}
}

func options(dir string) Options {
	return Options{
		Dir: dir, Coordinators: 1, Agents: 1, HTTP: "127.0.0.1:0", StopWithin: 4 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func startCluster(t *testing.T, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	return c
}

func alive(pid int) bool {
	p, ok := proc.Of(pid)
	return ok && !p.Zombie
}

func pidsOf(info Info) []int {
	pids := []int{info.Gateway.Pid}
	for _, c := range info.Coordinators {
		pids = append(pids, c.Pid)
	}
	for _, a := range info.Agents {
		pids = append(pids, a.Pid)
	}
	return pids
}

func TestCluster_startsTellsAndStopsWithoutATrace(t *testing.T) {
	o := options("")
	o.Coordinators, o.Agents = 3, 2
	c, err := Start(t.Context(), o)
	require.NoError(t, err)
	info, err := ReadInfo(c.Dir())
	require.NoError(t, err)
	require.Equal(t, c.Info(), info)
	require.Len(t, info.Coordinators, 3)
	require.Len(t, info.Agents, 2)
	require.Equal(t, []string{"c1", "n1"}, []string{info.Coordinators[0].ID, info.Agents[0].NodeID})
	for _, pid := range pidsOf(info) {
		require.True(t, alive(pid), "pid %d", pid)
	}
	for _, a := range append([][]string{info.Gateway.Argv}, info.Coordinators[2].Argv, info.Agents[1].Argv) {
		require.True(t, filepath.IsAbs(a[0]), "argv starts the same binary from anywhere")
	}
	require.FileExists(t, info.CACert)
	require.FileExists(t, info.Operator.KeyFile)
	stat, err := os.Stat(infoFile(c.Dir()))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm(), "it holds the token")

	require.NoError(t, c.Stop())
	for _, pid := range pidsOf(info) {
		require.False(t, alive(pid), "pid %d", pid)
	}
	require.NoDirExists(t, c.Dir())
}

func TestCluster_aSecondStartIsTheSameCluster(t *testing.T) {
	dir := t.TempDir()
	c := startCluster(t, options(dir))
	first := c.Info()
	_, err := Start(t.Context(), options(dir))
	require.ErrorContains(t, err, "in use by another")
	require.NoError(t, c.Stop())
	_, err = ReadInfo(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "its pids would mean nothing")

	again := options(dir)
	again.HTTP = ""
	second := startCluster(t, again).Info()
	require.Equal(t, first.Token, second.Token)
	require.Equal(t, first.Operator, second.Operator)
	require.Equal(t, first.Gateway.URL, second.Gateway.URL)
	require.Equal(t, first.Coordinators[0].RaftAddr, second.Coordinators[0].RaftAddr)
	require.NotEqual(t, first.Coordinators[0].Pid, second.Coordinators[0].Pid)

	wrong := options(dir)
	wrong.Coordinators = 5
	wrong.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(wrong.Dir, "cluster.json"), []byte(`{"Coordinators":[{"ID":"c1"}]}`), 0o600))
	_, err = Start(t.Context(), wrong)
	require.ErrorContains(t, err, "holds a cluster of 1 coordinators")
}

// The coordinators must not place tasks any more when the agents stop theirs: a job whose task has ended would be
// started again meanwhile, on another agent.
func TestCluster_stopsPlacingBeforeTheTasks(t *testing.T) {
	ends := filepath.Join(t.TempDir(), "ends")
	t.Setenv("ENDS", ends)
	c := startCluster(t, options(t.TempDir()))
	require.NoError(t, c.Stop())
	text, err := os.ReadFile(ends)
	require.NoError(t, err)
	var kinds []string
	for _, kind := range strings.Fields(string(text)) {
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
	}
	require.Equal(t, []string{kindGateway, kindCoordinator, kindAgent}, kinds)
}

func TestCluster_killedComponentsStayDead(t *testing.T) {
	c := startCluster(t, options(t.TempDir()))
	info := c.Info()
	require.NoError(t, syscall.Kill(info.Agents[0].Pid, syscall.SIGKILL))
	name, ok := c.Ended(t.Context())
	require.True(t, ok)
	require.Equal(t, "n1", name)
	<-c.components[1].over
	require.Equal(t, info, c.Info())
	require.False(t, alive(info.Agents[0].Pid))
}

func TestCluster_restartStartsThemAgainAndTellsThePid(t *testing.T) {
	o := options(t.TempDir())
	o.Restart = true
	c := startCluster(t, o)
	before := c.Info()
	require.NoError(t, syscall.Kill(before.Agents[0].Pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		info, err := ReadInfo(c.Dir())
		return err == nil && info.Agents[0].Pid != before.Agents[0].Pid && alive(info.Agents[0].Pid)
	}, 30*time.Second, 10*time.Millisecond)
	after := c.Info()
	require.Equal(t, before.Agents[0].Argv, after.Agents[0].Argv)
	require.Equal(t, before.Coordinators, after.Coordinators)
}

func TestCluster_aComponentThatDiesWhileStartingIsNamed(t *testing.T) {
	t.Setenv("BROKEN_AGENT", "1")
	o := options(t.TempDir())
	_, err := Start(t.Context(), o)
	require.ErrorContains(t, err, "n1 ended while the cluster was starting (exit status 3)")
	require.ErrorContains(t, err, "this agent is broken")
	require.Empty(t, leftoversOf(t, o.Dir))
}

func TestCluster_anAddressThatIsTakenIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o := options(t.TempDir())
	o.HTTP = l.Addr().String()
	_, err = Start(t.Context(), o)
	require.ErrorContains(t, err, "the gateway cannot listen on "+o.HTTP)
	require.ErrorContains(t, err, "--http")
}

func leftoversOf(t *testing.T, dir string) []int {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	l := &layout{dir: dir, options: Options{Executable: os.Args[0]}, Coordinators: []member{{ID: "c1"}}, Agents: []member{{ID: "n1"}}}
	l.options, err = options(dir).withDefaults()
	require.NoError(t, err)
	return leftovers(dir, l.components())
}

func TestCluster_childrenDieWithAKilledSupervisor(t *testing.T) {
	dir := t.TempDir()
	supervisor := exec.Command(os.Args[0], "supervise", dir)
	out, err := supervisor.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, supervisor.Start())
	up := make([]byte, 3)
	_, err = io.ReadFull(out, up)
	require.NoError(t, err)
	info, err := ReadInfo(dir)
	require.NoError(t, err)
	require.Len(t, pidsOf(info), 3)

	require.NoError(t, supervisor.Process.Kill())
	_ = supervisor.Wait()
	require.Eventually(t, func() bool {
		for _, pid := range pidsOf(info) {
			if alive(pid) {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond)
}

// TestCluster_stopSweepsWhatOthersLeft starts three processes that no component knows: one with the argv of a component
// that was killed, a shim, and a task. The last two ignore SIGTERM.
func TestCluster_stopSweepsWhatOthersLeft(t *testing.T) {
	c := startCluster(t, options(t.TempDir()))
	info := c.Info()
	require.NoError(t, syscall.Kill(info.Agents[0].Pid, syscall.SIGKILL))
	<-c.components[1].over

	again := exec.Command(info.Agents[0].Argv[0], info.Agents[0].Argv[1:]...)
	shim := exec.Command(os.Args[0], "shim", "--dir", filepath.Join(c.Dir(), "agents/n1/tasks/1"))
	task := exec.Command(os.Args[0], "task")
	task.Env = append(os.Environ(), "MIND_METRICS_FILE="+filepath.Join(c.Dir(), "agents/n1/tasks/1/metrics.jsonl"))
	bystander := exec.Command(os.Args[0], "task")
	for _, cmd := range []*exec.Cmd{again, shim, task, bystander} {
		require.NoError(t, cmd.Start())
	}
	require.Eventually(t, func() bool { return len(leftovers(c.Dir(), c.layout.components())) == 5 }, 30*time.Second, 10*time.Millisecond)

	require.NoError(t, c.Stop())
	for _, cmd := range []*exec.Cmd{again, shim, task} {
		_ = cmd.Wait() // would hang if the process kept running
	}
	require.True(t, alive(bystander.Process.Pid))
	require.NoError(t, bystander.Process.Kill())
	_ = bystander.Wait()
}

// After any certificate file was removed or damaged, the new files are of one authority, with matching keys.
func TestIssueCertificates_replacesInvalidOnes(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"the authority": func(dir string) error { return os.Remove(filepath.Join(dir, pki.CACertFile)) },
		"a certificate": func(dir string) error { return os.WriteFile(filepath.Join(dir, "c1.pem"), []byte("junk"), 0o600) },
		"a key":         func(dir string) error { return os.Remove(filepath.Join(dir, "n1-key.pem")) },
		"a key, for another": func(dir string) error {
			return os.Rename(filepath.Join(dir, "n1-key.pem"), filepath.Join(dir, "c1-key.pem"))
		},
		"nothing": func(string) error { return nil },
		"all":     os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			l := &layout{pki: filepath.Join(t.TempDir(), "pki"), Coordinators: []member{{ID: "c1"}}, Agents: []member{{ID: "n1"}}}
			require.NoError(t, l.issueCertificates())
			require.NoError(t, spoil(l.pki))
			require.NoError(t, l.issueCertificates())
			for _, id := range []string{"c1", "n1", kindGateway, operatorID} {
				files := l.files(id)
				_, err := pki.LoadServerTLS(files.Cert, files.Key, files.CA)
				require.NoError(t, err, id)
				authority, err := pki.ReadCertificates(files.CA)
				require.NoError(t, err)
				for _, ca := range authority {
					pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
					require.NoError(t, err)
					require.NoError(t, pair.Leaf.CheckSignatureFrom(ca), id)
				}
			}
		})
	}
}

func TestCluster_inProcess(t *testing.T) {
	o := options("")
	o.InProcess = play
	c := startCluster(t, o)
	for _, pid := range pidsOf(c.Info()) {
		require.Equal(t, os.Getpid(), pid)
	}
	require.NoError(t, c.Stop())
	require.NoDirExists(t, c.Dir())
}

func TestCluster_takesOnlyNumbersThatMakeAMajority(t *testing.T) {
	for _, n := range []int{2, 4, 6, -1} {
		_, err := Start(t.Context(), Options{Coordinators: n})
		require.ErrorContains(t, err, "1, 3 or 5")
	}
}

func TestBelongs(t *testing.T) {
	specs := []spec{{argv: []string{"/bin/mind", "agent", "--config", "/d/config/n1.yaml"}}}
	for name, c := range map[string]struct {
		argv, environ []string
		want          bool
	}{
		"component":            {argv: []string{"/bin/mind", "agent", "--config", "/d/config/n1.yaml"}, want: true},
		"of another cluster":   {argv: []string{"/bin/mind", "agent", "--config", "/e/config/n1.yaml"}},
		"shim":                 {argv: []string{"/proc/self/exe", "shim", "--dir", "/d/agents/n1/x"}, want: true},
		"task":                 {argv: []string{"python"}, environ: []string{"MIND_METRICS_FILE=/d/agents/n1/x/m"}, want: true},
		"supervisor of others": {argv: []string{"mind", "dev", "--data-dir", "/d"}},
	} {
		require.Equal(t, c.want, belongs(c.argv, c.environ, "/d", specs), name)
	}
}
