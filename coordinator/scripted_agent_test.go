package coordinator

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// scriptedAgent uses AgentService as a real agent does, and "runs" tasks in memory: it keeps its reports until they are
// acknowledged, follows the leader, and stops tasks that are no longer ordered.
type scriptedAgent struct {
	// tunnels are the openings of tunnels.
	tunnels []*v1.StreamTaskTunnelRequest
	v1.UnimplementedTaskServiceServer
	t     testing.TB
	dial  func(ctx context.Context, addr string) (net.Conn, error)
	gone  func() // releases its host
	hello *v1.Hello
	// saved are the last orders about checkpoints.
	saved []*v1.CheckpointOrder
	addrs []string

	mu       sync.Mutex
	seq      uint64
	unacked  []*v1.Report
	tasks    map[string]*scriptedTask // by job/attempt/rank
	specs    map[string]int           // number of times that each spec came in the present session
	orders   int
	sessions int
	fresh    chan struct{}
	stop     context.CancelFunc
	ended    sync.WaitGroup

	roster  *v1.Roster    // the newest
	beat    uint64        // heartbeats sent, in all sessions
	renewed uint64        // the newest heartbeat that was acknowledged
	relays  []*v1.Renewal // to be passed on
	relayed map[string]uint64
	cut     chan struct{} // closed while it must not be in session

	probed []*v1.ProbeDataRequest
	kept   map[string][]string // cached paths by tenant

	prepares map[string]bool // names of jobs whose tasks wait for their data

	samples []*v1.GpuSample // sent in every heartbeat
}

type scriptedTask struct {
	ref   *v1.TaskRef
	spec  *v1.TaskSpec
	ended bool
	// replaced: the orders no longer had the task while it ran.
	replaced bool
	lines    []string
}

func taskName(r *v1.TaskRef) string {
	return fmt.Sprintf("%s/%d/%d", r.GetJobId(), r.GetAttempt(), r.GetRank())
}

// agent starts an agent with a number of GPUs.
func (c *cluster) agent(id string, gpus int) *scriptedAgent {
	c.t.Helper()
	l, dial, gone := c.node()
	a := &scriptedAgent{t: c.t, dial: dial, gone: gone, tasks: map[string]*scriptedTask{}, fresh: make(chan struct{}, 1), relayed: map[string]uint64{}, cut: make(chan struct{})}
	a.hello = &v1.Hello{NodeId: id, Hostname: id, AgentVersion: "test", BootId: "boot-1", CpuCount: 64, MemoryMb: 1 << 18, GrpcAddr: l.Addr().String(), Labels: map[string]string{"name": id}}
	for i := range int32(gpus) {
		g := &v1.Gpu{Uuid: fmt.Sprintf("GPU-%s-%d", id, i), Index: i, Model: "NVIDIA H100 80GB HBM3", GpuType: "H100", MemoryMb: 81559, Health: v1.GpuHealth_HEALTHY, Simulated: true}
		for p := range int32(gpus) {
			if p != i {
				g.NvlinkPeers = append(g.NvlinkPeers, p)
			}
		}
		a.hello.Gpus = append(a.hello.Gpus, g)
	}
	for _, id := range c.ids {
		a.addrs = append(a.addrs, c.members[id].config.GRPCAddr)
	}
	server := grpc.NewServer()
	v1.RegisterTaskServiceServer(server, a)
	a.ended.Go(func() { _ = server.Serve(l) })
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = func() { cancel(); server.Stop() }
	a.ended.Go(func() { a.run(ctx) })
	c.t.Cleanup(a.close)
	c.awaitNode(id, v1.NodeState_READY)
	return a
}

func (a *scriptedAgent) close() {
	a.stop()
	a.ended.Wait()
	a.gone()
}

func (c *cluster) awaitNode(id string, want v1.NodeState_Value) *v1.Node {
	c.t.Helper()
	return c.awaitNodeFor(longstop, id, want)
}

func (c *cluster) awaitNodeFor(patience time.Duration, id string, want v1.NodeState_Value) *v1.Node {
	c.t.Helper()
	last := map[string]string{}
	for end := time.Now().Add(patience); time.Now().Before(end); waitABit() {
		for _, at := range c.running() {
			resp, err := c.nodes(at).GetNode(c.ctx("t1", ""), &v1.GetNodeRequest{NodeId: id})
			if err == nil && resp.GetNode().GetState() == want {
				return resp.GetNode()
			}
			last[at] = fmt.Sprintf("%s, %v", resp.GetNode().GetState(), err)
		}
	}
	c.t.Fatalf("node %s never was %s; last seen: %v", id, want, last)
	return nil
}

// run opens sessions, one after the other, until ctx ends.
func (a *scriptedAgent) run(ctx context.Context) {
	next := 0
	hint := ""
	for ctx.Err() == nil {
		if a.isCut() {
			hint = ""
			waitABit()
			continue
		}
		addr := hint
		if addr == "" {
			addr = a.addrs[next%len(a.addrs)]
			next++
		}
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(a.dial))
		if err != nil {
			a.t.Error(err)
			return
		}
		hint = a.session(ctx, conn)
		_ = conn.Close()
		if hint == "" || hint == addr {
			hint = ""
			waitABit()
		}
	}
}

// session runs one session, and returns the leader's address if the coordinator named it.
func (a *scriptedAgent) session(ctx context.Context, conn *grpc.ClientConn) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := v1.NewAgentServiceClient(conn).Session(ctx)
	if err != nil || stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Hello{Hello: a.sayHello()}}) != nil {
		return ""
	}
	a.mu.Lock()
	a.sessions++
	a.specs = map[string]int{}
	sent := 0
	cut := a.cut
	a.mu.Unlock()
	var sender sync.WaitGroup
	defer sender.Wait()
	defer cancel()
	sender.Go(func() {
		beat := time.NewTicker(time.Second)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-cut:
				cancel()
				return
			case <-beat.C:
				if stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Heartbeat{Heartbeat: a.heartbeat()}}) != nil {
					return
				}
			case <-a.fresh:
			}
			a.mu.Lock()
			for _, r := range a.relays {
				if stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Relayed{Relayed: r}}) != nil {
					break
				}
			}
			a.relays = nil
			var batch []*v1.Report
			for _, r := range a.unacked {
				if int(r.GetSeq()) > sent {
					batch = append(batch, r)
					sent = int(r.GetSeq())
				}
			}
			a.mu.Unlock()
			if len(batch) > 0 && stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Reports{Reports: &v1.ReportBatch{Reports: batch}}}) != nil {
				return
			}
		}
	})
	for {
		resp, err := stream.Recv()
		if err != nil {
			if md := stream.Trailer()[status.KeyLeader]; len(md) > 0 {
				_, addr, _ := strings.Cut(md[0], "=")
				return addr
			}
			return ""
		}
		switch body := resp.GetBody().(type) {
		case *v1.SessionResponse_Orders:
			a.obey(body.Orders)
		case *v1.SessionResponse_Ack:
			a.mu.Lock()
			a.renewed = max(a.renewed, body.Ack.GetHeartbeatSeq())
			for len(a.unacked) > 0 && a.unacked[0].GetSeq() <= body.Ack.GetReportSeq() {
				a.unacked = a.unacked[1:]
			}
			a.mu.Unlock()
		case *v1.SessionResponse_Roster:
			a.mu.Lock()
			a.roster = body.Roster
			a.mu.Unlock()
		case *v1.SessionResponse_RelayedAck:
			a.mu.Lock()
			a.relayed[body.RelayedAck.GetNodeId()] = max(a.relayed[body.RelayedAck.GetNodeId()], body.RelayedAck.GetSeq())
			a.mu.Unlock()
		}
	}
}

// sayHello returns the hello with the agent's tasks.
func (a *scriptedAgent) sayHello() *v1.Hello {
	a.mu.Lock()
	defer a.mu.Unlock()
	hello := proto.CloneOf(a.hello)
	hello.RosterVersion = a.roster.GetVersion()
	for _, task := range a.tasks {
		if !task.ended {
			hello.Tasks = append(hello.Tasks, task.ref)
		}
	}
	return hello
}

func (a *scriptedAgent) heartbeat() *v1.Heartbeat {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beat++
	return &v1.Heartbeat{Seq: a.beat, RosterVersion: a.roster.GetVersion(), Samples: a.samples}
}

// renewal returns a renewal for other agents to pass on.
func (a *scriptedAgent) renewal() *v1.Renewal {
	beat := a.heartbeat()
	return &v1.Renewal{NodeId: a.hello.GetNodeId(), BootId: a.hello.GetBootId(), Seq: beat.GetSeq(), RosterVersion: beat.GetRosterVersion()}
}

// relay passes on a renewal of another agent.
func (a *scriptedAgent) relay(r *v1.Renewal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.relays = append(a.relays, r)
	select {
	case a.fresh <- struct{}{}:
	default:
	}
}

// isolate ends the session, and opens no other one until heal.
func (a *scriptedAgent) isolate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.cut)
}

func (a *scriptedAgent) heal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = make(chan struct{})
}

func (a *scriptedAgent) isCut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.cut:
		return true
	default:
		return false
	}
}

func (a *scriptedAgent) obey(orders *v1.Orders) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orders++
	wanted := map[string]bool{}
	for _, o := range orders.GetTasks() {
		wanted[taskName(o.GetTask())] = true
	}
	for name, task := range a.tasks {
		if !wanted[name] && !task.ended { // The task was replaced: the agent stops it, and reports its end all the same.
			task.ended, task.replaced = true, true
			a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Ended{Ended: &v1.TaskEnded{ExitCode: proto.Int32(143), ErrorType: v1.ErrorType_NODE_LOST}}})
		}
	}
	a.saved = orders.GetCheckpoints()
	for _, o := range orders.GetTasks() {
		task := a.tasks[taskName(o.GetTask())]
		if o.GetSpec() != nil {
			a.specs[taskName(o.GetTask())]++
		}
		if task == nil && o.GetStop() == v1.StopReason_UNSPECIFIED {
			if o.GetSpec() == nil {
				a.t.Errorf("node %s was never told how to launch %s", a.hello.GetNodeId(), taskName(o.GetTask()))
				continue
			}
			a.tasks[taskName(o.GetTask())] = &scriptedTask{ref: o.GetTask(), spec: o.GetSpec()}
			a.report(&v1.Report{Task: o.GetTask(), Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}})
			if !a.prepares[o.GetSpec().GetJob().GetName()] {
				a.report(&v1.Report{Task: o.GetTask(), Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 1}}})
			}
		}
		if o.GetStop() != v1.StopReason_UNSPECIFIED && (task == nil || !task.ended) {
			if task == nil {
				task = &scriptedTask{ref: o.GetTask()}
				a.tasks[taskName(o.GetTask())] = task
			}
			task.ended = true
			a.report(&v1.Report{Task: o.GetTask(), Body: &v1.Report_Ended{Ended: &v1.TaskEnded{ExitCode: proto.Int32(143), ErrorType: v1.ErrorType_EXIT_NONZERO}}})
		}
	}
}

// report is called with the lock held.
func (a *scriptedAgent) report(r *v1.Report) {
	a.seq++
	r.Seq, r.Time = a.seq, timestamppb.Now()
	a.unacked = append(a.unacked, r)
	select {
	case a.fresh <- struct{}{}:
	default:
	}
}

// end lets a task of a job exit, after it wrote some lines.
func (a *scriptedAgent) end(job string, exit int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			task.ended = true
			body := &v1.TaskEnded{ExitCode: &exit}
			if exit != 0 {
				body.ErrorType = v1.ErrorType_EXIT_NONZERO
			}
			a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Ended{Ended: body}})
		}
	}
}

// write appends to the log of the newest task of a job here.
func (a *scriptedAgent) write(job string, attempt int32, lines ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && task.ref.GetAttempt() == attempt {
			task.lines = append(task.lines, lines...)
		}
	}
}

func (a *scriptedAgent) has(job string) *v1.TaskSpec {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job {
			return task.spec
		}
	}
	return nil
}

// ReadTaskLogs serves the lines; an offset is a number of lines.
func (a *scriptedAgent) ReadTaskLogs(req *v1.ReadTaskLogsRequest, stream v1.TaskService_ReadTaskLogsServer) error {
	at, first := req.GetOffset(), true
	for {
		a.mu.Lock()
		task := a.tasks[fmt.Sprintf("%s/%d/%d", req.GetJobId(), req.GetAttempt(), req.GetRank())]
		if task == nil {
			a.mu.Unlock()
			return grpcstatus.Error(codes.NotFound, "no such task")
		}
		lines, ended := task.lines, task.ended
		a.mu.Unlock()
		if first && req.Tail != nil {
			at = max(at, uint64(max(0, len(lines)-int(req.GetTail()))))
			if err := stream.Send(&v1.ReadTaskLogsResponse{Begins: proto.Uint64(at)}); err != nil {
				return err
			}
		}
		first = false
		out := &v1.ReadTaskLogsResponse{}
		for ; at < uint64(len(lines)); at++ {
			out.Entries = append(out.Entries, &v1.TaskLogEntry{Offset: at + 1, UnixNanos: int64(at) + 1, Line: lines[at]})
		}
		// eof is set only for a task that has ended. For a running task the end of the stream means that there is no
		// more output yet.
		out.Eof = ended
		if last := ended || !req.GetFollow(); last || len(out.GetEntries()) > 0 {
			if err := stream.Send(out); err != nil || last {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		default:
			waitABit()
		}
	}
}

// trailerOf returns one value of a trailer.
func trailerOf(md metadata.MD, key string) string { return call.First(md, key) }
