package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/waittest"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

const (
	agentEnv = "MIND_TEST_AGENT_CONFIG"
	// diskEnv makes the agent process mount a disk with these options on its data directory.
	diskEnv = "MIND_TEST_AGENT_DISK"
)

// TestMain makes the test binary an agent process (and, through package shim, a shim).
func TestMain(m *testing.M) {
	if text := os.Getenv(agentEnv); text != "" {
		var cfg Config
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if options := os.Getenv(diskEnv); options != "" {
			err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
			if err == nil {
				err = syscall.Mount("tmpfs", cfg.DataDir, "tmpfs", 0, options)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
		}
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Run(ctx, cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	waittest.Together()
	os.Exit(testrun.Main(m.Run))
}

// fakeLeader is a coordinator that behaves towards agents like a leader.
type fakeLeader struct {
	v1.UnimplementedAgentServiceServer
	v1.UnimplementedAuditServiceServer
	t      testing.TB
	addr   string
	server *grpc.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	needed  func(*v1.GetNeededOutputsRequest) *v1.GetNeededOutputsResponse
	term    uint64
	orders  []*v1.TaskOrder
	index   uint64
	reports []*v1.Report
	// enabledAt is the node's.
	enabledAt uint64
	hellos    []*v1.Hello
	beats     int
	gpus      []*v1.Gpu
	batches   [][]*v1.Report
	deaf      bool   // accepts reports, but acknowledges none
	refuse    string // the address of the leader that it names instead of leading
	mute      bool   // acknowledges no renewals, like a leader that was deposed and does not know it
	roster    *v1.Roster
	rosters   []uint64 // versions in heartbeats
	relayed   []*v1.Renewal
	aloof     bool // acknowledges no relayed renewals
	denials   []*v1.Denial
	unfit     []string // reasons in heartbeats
}

func newLeader(t testing.TB, options ...grpc.ServerOption) *fakeLeader {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveLeader(t, listener, 1, options...)
}

func serveLeader(t testing.TB, listener net.Listener, term uint64, options ...grpc.ServerOption) *fakeLeader {
	l := &fakeLeader{t: t, addr: listener.Addr().String(), server: grpc.NewServer(options...), changed: make(chan struct{}), term: term}
	v1.RegisterAgentServiceServer(l.server, l)
	v1.RegisterAuditServiceServer(l.server, l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.server.Serve(listener)
	}()
	t.Cleanup(func() {
		l.server.Stop()
		<-done
	})
	return l
}

func (l *fakeLeader) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// GetNeededOutputs returns the result of needed.
func (l *fakeLeader) GetNeededOutputs(_ context.Context, req *v1.GetNeededOutputsRequest) (*v1.GetNeededOutputsResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.needed == nil {
		return nil, grpcstatus.Error(codes.Unimplemented, "an earlier version")
	}
	return l.needed(req), nil
}

func (l *fakeLeader) Session(stream v1.AgentService_SessionServer) error {
	l.mu.Lock()
	refuse := l.refuse
	l.mu.Unlock()
	if refuse != "" {
		stream.SetTrailer(metadata.Pairs(status.KeyLeader, "c9="+refuse))
		return grpcstatus.Error(codes.FailedPrecondition, "not leading")
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	l.change(func() { l.hellos, l.gpus = append(l.hellos, first.GetHello()), first.GetHello().GetGpus() })
	if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Welcome{Welcome: &v1.Welcome{CoordinatorId: "c1", Term: l.term, HeartbeatIntervalMs: 50}}}); err != nil {
		return err
	}
	answers := make(chan *v1.SessionResponse, 1000)
	broken := make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				broken <- err
				return
			}
			ack := &v1.Ack{}
			var relayed *v1.RenewalAck
			l.change(func() {
				if r := req.GetRelayed(); r != nil {
					l.relayed = append(l.relayed, r)
					if !l.mute && !l.aloof {
						relayed = &v1.RenewalAck{NodeId: r.GetNodeId(), Seq: r.GetSeq()}
					}
				}
				if b := req.GetHeartbeat(); b != nil {
					l.beats++
					l.rosters = append(l.rosters, b.GetRosterVersion())
					if !l.mute {
						ack.HeartbeatSeq = b.GetSeq()
					}
					if b.Unfit != nil {
						l.unfit = append(l.unfit, b.GetUnfit())
					}
					if b.GetGpus() != nil {
						l.gpus = b.GetGpus()
					}
				}
				if r := req.GetReports(); r != nil {
					l.reports = append(l.reports, r.GetReports()...)
					l.batches = append(l.batches, r.GetReports())
				}
				if n := len(l.reports); n > 0 && !l.deaf {
					ack.ReportSeq = l.reports[n-1].GetSeq()
				}
			})
			answers <- &v1.SessionResponse{Body: &v1.SessionResponse_Ack{Ack: ack}}
			if relayed != nil {
				answers <- &v1.SessionResponse{Body: &v1.SessionResponse_RelayedAck{RelayedAck: relayed}}
			}
		}
	}()
	told := uint64(0)
	var rostered *v1.Roster
	specs := make(map[taskid.ID]bool)
	for {
		l.mu.Lock()
		changed, index, roster := l.changed, l.index, l.roster
		orders := &v1.Orders{Index: index, EnabledAt: l.enabledAt}
		for _, o := range l.orders {
			// A specification is sent once per session, like a real leader does.
			order := &v1.TaskOrder{Task: o.GetTask(), Stop: o.GetStop(), GracePeriodSeconds: o.GetGracePeriodSeconds()}
			if k := taskid.Of(o.GetTask()); !specs[k] {
				order.Spec = o.GetSpec()
				specs[k] = true
			}
			orders.Tasks = append(orders.Tasks, order)
		}
		l.mu.Unlock()
		if index != told {
			told = index
			if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Orders{Orders: orders}}); err != nil {
				return err
			}
		}
		if roster != rostered {
			rostered = roster
			if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Roster{Roster: roster}}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case answer := <-answers:
			if err := stream.Send(answer); err != nil {
				return err
			}
		case err := <-broken:
			return err
		}
	}
}

// hello waits for the n-th hello, counted from 0. An agent that was cut off for a moment sends another one.
func (l *fakeLeader) hello(n int) (hello *v1.Hello) {
	l.t.Helper()
	l.await("a hello", func() bool {
		if len(l.hellos) <= n {
			return false
		}
		hello = l.hellos[n]
		return true
	})
	return hello
}

// said returns the number of hellos.
func (l *fakeLeader) said() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.hellos)
}

// keeps reports whether the last heartbeat had a version of the roster.
func (l *fakeLeader) keeps(version uint64) bool {
	return len(l.rosters) > 0 && l.rosters[len(l.rosters)-1] == version
}

// want sets the orders.
func (l *fakeLeader) want(orders ...*v1.TaskOrder) {
	l.change(func() {
		l.orders = orders
		l.index++
	})
}

// await waits until a condition of the leader holds.
func (l *fakeLeader) await(what string, condition func() bool) {
	l.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		ok, changed := condition(), l.changed
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			l.mu.Lock()
			defer l.mu.Unlock()
			require.FailNow(l.t, "never came: "+what, "reports: %v", l.reports)
		}
	}
}

// reported waits for a report of the task that satisfies the condition.
func (l *fakeLeader) reported(task *v1.TaskRef, what string, condition func(*v1.Report) bool) *v1.Report {
	l.t.Helper()
	var found *v1.Report
	l.await(what, func() bool {
		for _, r := range l.reports {
			if proto.Equal(r.GetTask(), task) && condition(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

func (l *fakeLeader) running(task *v1.TaskRef) int {
	l.t.Helper()
	r := l.reported(task, "running", func(r *v1.Report) bool { return r.GetRunning() != nil })
	return int(r.GetRunning().GetPid())
}

func (l *fakeLeader) ended(task *v1.TaskRef) *v1.TaskEnded {
	l.t.Helper()
	return l.reported(task, "ended", func(r *v1.Report) bool { return r.GetEnded() != nil }).GetEnded()
}

// kinds lists the kinds of the reports about a task, in order and without repetitions.
func (l *fakeLeader) kinds(task *v1.TaskRef) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kinds []string
	seen := make(map[uint64]bool)
	for _, r := range l.reports {
		if proto.Equal(r.GetTask(), task) && !seen[r.GetSeq()] {
			seen[r.GetSeq()] = true
			kinds = append(kinds, fmt.Sprintf("%T", r.GetBody())[len("*scaimindv1.Report_"):])
		}
	}
	return kinds
}

func (l *fakeLeader) RecordDenials(_ context.Context, req *v1.RecordDenialsRequest) (*v1.RecordDenialsResponse, error) {
	l.change(func() { l.denials = append(l.denials, req.GetDenials()...) })
	return &v1.RecordDenialsResponse{Recorded: int32(len(req.GetDenials()))}, nil
}

// denied waits until the agent has reported a denial.
func (l *fakeLeader) denied(what string) {
	l.t.Helper()
	l.await("a denial of "+what, func() bool {
		return slices.ContainsFunc(l.denials, func(d *v1.Denial) bool {
			return d.GetObject() == what && d.GetOutcome() == "PERMISSION_DENIED" && d.GetReason() == privateDirectory && d.GetJobId() != ""
		})
	})
}

// course is like kinds, but omits the report that a task is being launched: it is not sent if the task runs soon after.
func (l *fakeLeader) course(task *v1.TaskRef) []string {
	return slices.DeleteFunc(l.kinds(task), func(kind string) bool { return kind == "Starting" })
}

var tokens atomic.Uint64

func order(argv ...string) *v1.TaskOrder {
	token := tokens.Add(1)
	return &v1.TaskOrder{
		Task: &v1.TaskRef{JobId: fmt.Sprintf("job_%d", token), Attempt: 1, Token: token},
		Spec: &v1.TaskSpec{
			Job:   &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: argv, Cwd: "/"}},
			Peers: []*v1.TaskPeer{{NodeId: "n1", Host: "127.0.0.1"}}, GpuFraction: 1, MasterPort: 15001,
		},
	}
}

func stopped(o *v1.TaskOrder, reason v1.StopReason_Value, grace int32) *v1.TaskOrder {
	return &v1.TaskOrder{Task: o.GetTask(), Stop: reason, GracePeriodSeconds: grace}
}

func testConfig(t testing.TB, leaders ...*fakeLeader) Config {
	cfg := Config{NodeID: "n1", DataDir: t.TempDir(), GPUs: "8xH100", Isolation: string(leveltest.Level()), Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	cfg.Data.Roots = []string{os.TempDir()}
	// How full the machine of the tests is, is no matter of theirs.
	require.NoError(t, cfg.MinFreeDisk.UnmarshalText([]byte("0")))
	if cfg.Isolation == string(isolation.Full) {
		cfg.Mounts = []string{"/tmp:/tmp:rw"} // tests share files with their tasks
	}
	for _, l := range leaders {
		cfg.Coordinators = append(cfg.Coordinators, l.addr)
	}
	t.Cleanup(func() { stopShims(t, cfg.DataDir) })
	return cfg
}

// belowFull skips a test at the level full, at which its task cannot do what the test is about.
func belowFull(t *testing.T, why string) {
	t.Helper()
	if leveltest.Level() == isolation.Full {
		t.Skip(why)
	}
}

// withoutWalls skips a test at the levels that have walls around paths, behind which its task cannot do what the test is about.
func withoutWalls(t *testing.T, why string) {
	t.Helper()
	if leveltest.Level() != isolation.None {
		t.Skip(why)
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}

// stopShims ends the shims that a test left running.
func stopShims(t testing.TB, dataDir string) {
	entries, _ := os.ReadDir(dataDir + "/tasks")
	for _, e := range entries {
		dir := dataDir + "/tasks/" + e.Name()
		if runner.Gone(dir) {
			continue
		}
		if h, err := runner.Attach(dir, ""); err == nil {
			_ = h.Stop(killAtOnce)
			h.Close()
		}
		require.Eventually(t, func() bool { return runner.Gone(dir) }, 30*time.Second, time.Millisecond)
	}
}

// opened runs an agent in the test process, and returns it, so that the test can examine its parts.
func opened(t testing.TB, cfg Config) (a *agent, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	a, release, err := open(ctx, cfg.withDefaults())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		err := a.serve(ctx)
		release()
		done <- err
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(30 * time.Second):
				require.FailNow(t, "the agent does not stop")
			}
		})
	}
	t.Cleanup(stop)
	return a, stop
}

// inProcess runs an agent in the test process, and returns a function that stops it.
func inProcess(t testing.TB, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(30 * time.Second):
				require.FailNow(t, "the agent does not stop")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// process runs an agent as a separate process.
func process(t testing.TB, cfg Config) *exec.Cmd { return processOf(t, cfg, "/proc/self/exe") }

func processOf(t testing.TB, cfg Config, binary string, more ...func(*exec.Cmd)) *exec.Cmd {
	cfg.Logger, cfg.Metrics = nil, nil
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	cmd := exec.Command(binary)
	cmd.Env = append(slices.Clone(os.Environ()), agentEnv+"="+string(text), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	for _, change := range more {
		change(cmd)
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}
