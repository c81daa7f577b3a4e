package archive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/mindcoordinator/mind/agent"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator"
	"github.com/mindcoordinator/mind/coordinator/output"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

const agentEnv = "MIND_TEST_AGENT_CONFIG"

// TestMain makes the test binary an agent (and, through package agent, a shim), so that a test can kill agents and
// machines.
func TestMain(m *testing.M) {
	if text := os.Getenv(agentEnv); text != "" {
		var cfg agent.Config
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := agent.Run(ctx, cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testrun.Main(m.Run))
}

// longstop limits every wait. It is far longer than any of them takes.
const longstop = 90 * time.Second

// site is one coordinator and the agents of some machines.
type site struct {
	t       *testing.T
	addr    string
	archive string
	conn    *grpc.ClientConn
	dir     string
	// apart are machines whose disks are hidden from machines that are started later.
	apart []*machine
}

func startSite(t *testing.T, archiveURL string) *site {
	if testing.Short() {
		t.Skip("a whole site, with machines that die")
	}
	var sockets porttest.Sockets
	s := &site{t: t, addr: sockets.Open(t), archive: archiveURL, dir: t.TempDir()}
	config := coordinator.Config{
		ID: "c1", DataDir: filepath.Join(s.dir, "c1"), GRPCAddr: s.addr, HTTPAddr: sockets.Open(t), RaftAddr: sockets.Open(t),
		LogArchive: output.Archive{URL: archiveURL}, Logger: slog.New(slog.DiscardHandler), Network: &sockets,
		Timers: coordinator.Timers{AgentHeartbeat: 100 * time.Millisecond, UnreachableAfter: time.Second},
	}
	config.Peers = []coordinator.Peer{{ID: "c1", RaftAddr: config.RaftAddr, GRPCAddr: config.GRPCAddr, HTTPAddr: config.HTTPAddr}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- coordinator.Run(ctx, config) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	conn, err := grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.conn = conn
	return s
}

func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), longstop)
	s.t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, status.KeyTenant, "t1")
}

func (s *site) jobs() v1.JobServiceClient        { return v1.NewJobServiceClient(s.conn) }
func (s *site) cluster() v1.ClusterServiceClient { return v1.NewClusterServiceClient(s.conn) }

// machine is a node that can die.
type machine struct {
	site *site
	cfg  agent.Config
	cmd  *exec.Cmd
	// hides are directories of other machines, which are hidden from this one.
	hides []string
}

// machine starts a machine with an agent that ships to the archive of the site.
func (s *site) machine(id string, change func(*agent.Config)) *machine {
	m := &machine{site: s, cfg: agent.Config{
		NodeID: id, DataDir: filepath.Join(s.dir, id), Coordinators: []string{s.addr}, GPUs: "none", CPUs: 4, MemMB: 4096, SpareShims: -1,
		LogArchive: agent.LogArchive{URL: s.archive, Flush: 100 * time.Millisecond},
	}}
	for _, other := range s.apart {
		m.hides = append(m.hides, other.cfg.DataDir)
	}
	if change != nil {
		change(&m.cfg)
	}
	s.t.Cleanup(m.die)
	m.boot()
	return m
}

// apart returns a command that runs this program with some directories hidden by empty ones, as on another machine.
func apart(t *testing.T, hides []string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	// unshare and the shell exec the program, so it has the process id of the command.
	return exec.Command("unshare", append([]string{"--map-root-user", "--mount", "sh", "-ec", `for dir; do mount -t tmpfs none "$dir"; done; exec "$0"`, self}, hides...)...)
}

// boot starts the agent and waits until its node is ready.
func (m *machine) boot() {
	m.start()
	m.site.eventually("a node that is ready", func() error {
		resp, err := m.site.cluster().GetNode(m.site.ctx(), &v1.GetNodeRequest{NodeId: m.cfg.NodeID})
		if err == nil && resp.GetNode().GetState() != v1.NodeState_READY {
			err = fmt.Errorf("it is %s", resp.GetNode().GetState())
		}
		return err
	})
}

// start starts the agent.
func (m *machine) start() {
	text, err := json.Marshal(m.cfg)
	require.NoError(m.site.t, err)
	m.cmd = exec.Command("/proc/self/exe")
	if len(m.hides) > 0 {
		m.cmd = apart(m.site.t, m.hides)
	}
	m.cmd.Env = append(os.Environ(), agentEnv+"="+string(text))
	m.cmd.Stderr = os.Stderr
	require.NoError(m.site.t, m.cmd.Start())
}

// killAgent kills the agent; its tasks keep running.
func (m *machine) killAgent() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// die ends the agent and all of its tasks at once, like the death of a machine.
func (m *machine) die() {
	m.killAgent()
	m.site.eventually("a machine on which nothing runs", func() error {
		left := m.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("there run %v", left)
		}
		return nil
	})
}

// processes returns the shims, which it finds by their working directory, and the processes of tasks, which it finds by
// their environment.
func (m *machine) processes() (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		cwd, _ := os.Readlink(proc + "/cwd")
		environ, _ := os.ReadFile(proc + "/environ")
		if strings.HasPrefix(cwd, m.cfg.DataDir+"/") || strings.Contains(string(environ), "MIND_METRICS_FILE="+m.cfg.DataDir+"/") {
			if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// perish makes the machine die and removes its disk.
func (m *machine) perish() {
	m.die()
	m.site.eventually("a disk without writers", func() error { return os.RemoveAll(m.cfg.DataDir) })
}

// forget makes the cluster forget the dead machine.
func (m *machine) forget() {
	m.site.eventually("a node that is forgotten", func() error { // refused until the node counts as gone
		_, err := m.site.cluster().ForgetNode(m.site.ctx(), &v1.ForgetNodeRequest{NodeId: m.cfg.NodeID})
		return err
	})
}

// eventually waits until is returns nil. Its error describes the present state.
func (s *site) eventually(what string, is func() error) {
	s.t.Helper()
	for end := time.Now().Add(longstop); ; time.Sleep(20 * time.Millisecond) {
		err := is()
		if err == nil {
			return
		}
		require.True(s.t, time.Now().Before(end), "never came: %s: %v", what, err)
	}
}

// submit submits a job that runs a shell script.
func (s *site) submit(script string, change func(*v1.SubmitJobRequest)) string {
	s.t.Helper()
	req := &v1.SubmitJobRequest{
		Name: "writer", CommandConfig: &v1.CommandConfig{Argv: []string{"/bin/sh", "-c", script}, Cwd: "/"},
		ResourceConfig: &v1.ResourceConfig{CpuCount: 1}, SchedulingConfig: &v1.SchedulingConfig{},
	}
	if change != nil {
		change(req)
	}
	resp, err := s.jobs().SubmitJob(s.ctx(), req)
	require.NoError(s.t, err)
	return resp.GetJobId()
}

// asElement makes a job an array of one element, which is named by the end of its id, such as "[3]"; empty: it is a plain job.
func asElement(element string) func(*v1.SubmitJobRequest) {
	return func(req *v1.SubmitJobRequest) {
		if number, err := strconv.ParseInt(strings.Trim(element, "[]"), 10, 32); err == nil {
			req.SchedulingConfig.Array = &v1.ArraySpec{Start: int32(number), End: int32(number)}
		}
	}
}

func (s *site) awaitJob(id string, want func(*v1.Job) bool) *v1.Job {
	s.t.Helper()
	var last *v1.Job
	s.eventually("job as wanted", func() error {
		resp, err := s.jobs().GetJob(s.ctx(), &v1.GetJobRequest{JobId: id})
		require.NoError(s.t, err)
		if last = resp.GetJob(); !want(last) {
			return fmt.Errorf("it is %v", last)
		}
		return nil
	})
	return last
}

func over(j *v1.Job) bool { return j.GetFinishedAt() != nil }
