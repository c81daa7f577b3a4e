// Package tunnels relays tunnels between users and the agents of their tasks.
//
// Guarantees: a user reaches tasks of the own tenant only, and while they run. A tunnel is in the audit log before its agent
// hears of it. Any coordinator relays; a client whose coordinator died goes on through another one, even without a leader.
//
// Not guaranteed: anything about the bytes on the way. Clients and agents number them.
package tunnels

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call.
	Read(ctx context.Context) (*fsm.View, error)
	// Write serves a write here if this coordinator leads, and forwards it to the leader otherwise.
	Write(ctx context.Context, c *call.Call, method string, req any, reply func() proto.Message, handler grpc.UnaryHandler) (any, error)
}

// Agents holds connections to the agents, by address. It owns them.
type Agents interface {
	To(addr string) (*grpc.ClientConn, error)
}

// Service relays tunnels.
type Service struct {
	state  State
	agents Agents
	noted  noted
}

// New makes a service.
func New(state State, agents Agents) *Service { return &Service{state: state, agents: agents} }

// StreamJobTunnel relays one stream of a tunnel, until either end closes it.
func (s *Service) StreamJobTunnel(stream v1.JobService_StreamJobTunnelServer) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	opening := first.GetOpening()
	node, err := s.open(ctx, opening)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := call.Of(ctx)
	down, err := s.reach(ctx, node, &v1.StreamTaskTunnelRequest{Opening: opening, TenantId: c.Tenant, UserId: c.User})
	if err != nil {
		return err
	}
	up := make(chan error, 1)
	// The stream ends when this function returns, and with it the goroutine.
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				cancel()
				up <- err
				return
			}
			if down.Send(&v1.StreamTaskTunnelRequest{Input: m.GetInput()}) != nil {
				return // the agent's answer says why
			}
		}
	}()
	for {
		m, err := down.Recv()
		if status.Code(err) == codes.Unimplemented {
			return call.Errorf(codes.FailedPrecondition, "the agent of node %s is of an earlier version of mind, which has no shells: upgrade it", node.ID)
		}
		if err != nil {
			return ended(err, up)
		}
		if err := stream.Send(&v1.StreamJobTunnelResponse{Output: m.GetOutput()}); err != nil {
			return err
		}
	}
}

// ended returns the error for the end of the agent's stream, which is that of the client's if that ended first.
func ended(err error, up <-chan error) error {
	select {
	case err := <-up:
		if err == io.EOF { //nolint:errorlint // as gRPC returns it
			return nil
		}
		return err
	default:
	}
	if err == io.EOF { //nolint:errorlint // as gRPC returns it
		return nil
	}
	return err
}

// reach opens the stream of the agent.
func (s *Service) reach(ctx context.Context, node *work.Node, first *v1.StreamTaskTunnelRequest) (v1.TaskService_StreamTaskTunnelClient, error) {
	conn, err := s.agents.To(node.GRPCAddr)
	if err != nil {
		return nil, call.NodeSilent("reaching the agent of node %s: %v", node.ID, err)
	}
	stream, err := v1.NewTaskServiceClient(conn).StreamTaskTunnel(ctx)
	if err == nil {
		err = stream.Send(first)
	}
	if status.Code(err) == codes.Unavailable {
		return nil, call.NodeSilent("the agent of node %s does not answer", node.ID)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // then the first answer says why
		return nil, err
	}
	return stream, nil
}

// open returns the node of the task that a tunnel leads to, and fills in its attempt.
func (s *Service) open(ctx context.Context, opening *v1.TunnelOpening) (*work.Node, error) {
	if opening == nil {
		return nil, call.Bad("opening", "must be in the first message")
	}
	if opening.GetResume() {
		return s.resume(ctx, opening)
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	c := call.Of(ctx)
	j, err := c.Job(v, opening.GetJobId())
	if err != nil {
		return nil, err
	}
	task, err := running(v, j, opening.GetRank())
	if err != nil {
		return nil, err
	}
	n, ok := v.Node(task.Node)
	if !ok {
		return nil, call.Errorf(codes.FailedPrecondition, "node %s of rank %d is no longer known", task.Node, task.Rank)
	}
	opening.Attempt = int32(j.Attempt)
	port := connected{c.Tenant, c.User, c.Token, opening.GetJobId(), opening.GetRank(), opening.GetPort()}
	if opening.GetShell() == nil && s.noted.recently(port, time.Now()) {
		return n, nil
	}
	const method = v1.JobService_OpenTunnel_FullMethodName
	_, err = s.state.Write(ctx, c, method, &v1.OpenTunnelRequest{Opening: opening}, methods.Of(method).NewReply,
		func(ctx context.Context, req any) (any, error) { return s.OpenTunnel(ctx, req.(*v1.OpenTunnelRequest)) })
	if err != nil {
		return nil, err
	}
	s.noted.note(port, time.Now())
	return n, nil
}

// running returns the task of a rank, if it runs.
func running(v *fsm.View, j *work.Job, rank int32) (*work.Task, error) {
	if j.Array != nil {
		return nil, call.Errorf(codes.FailedPrecondition, "job %s is an array: name one of its elements (`mind job %s`)", j.ID, j.ID)
	}
	if !j.Live() {
		return nil, call.Errorf(codes.FailedPrecondition, "job %s does not run: its status is %s", j.ID, jobview.StatusIn(j, j.State))
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		switch {
		case int32(t.Rank) != rank:
		case t.State != v1.TaskState_RUNNING:
			return nil, call.Errorf(codes.FailedPrecondition, "rank %d of job %s does not run yet, or no longer", rank, j.ID)
		default:
			return t, nil
		}
	}
	return nil, call.Errorf(codes.FailedPrecondition, "job %s has no rank %d: it has %s", j.ID, rank, call.Plural(len(j.Tasks), "task"))
}

// resume returns the node of a tunnel that was opened before. It needs no leader: the agent knows the tunnel and its user.
func (s *Service) resume(ctx context.Context, opening *v1.TunnelOpening) (*work.Node, error) {
	v := s.state.View()
	j, err := call.Of(ctx).Job(v, opening.GetJobId())
	if err != nil {
		if v, err = s.state.Read(ctx); err != nil {
			return nil, err
		}
		if j, err = call.Of(ctx).Job(v, opening.GetJobId()); err != nil {
			return nil, err
		}
	}
	name := nodeOf(j, opening.GetAttempt(), opening.GetRank())
	if name == "" { // this coordinator may lag behind
		if v, err = s.state.Read(ctx); err != nil {
			return nil, err
		}
		if j, err = call.Of(ctx).Job(v, opening.GetJobId()); err != nil {
			return nil, err
		}
		name = nodeOf(j, opening.GetAttempt(), opening.GetRank())
	}
	if n, ok := v.Node(name); ok && name != "" {
		return n, nil
	}
	return nil, call.Errorf(codes.NotFound, "the tunnel is no longer there: attempt %d of job %s has ended", opening.GetAttempt(), j.ID)
}

func nodeOf(j *work.Job, attempt, rank int32) string {
	if attempt == int32(j.Attempt) {
		for _, t := range j.Tasks {
			if int32(t.Rank) == rank {
				return t.Node
			}
		}
	}
	for _, p := range j.Past {
		if int32(p.Attempt) == attempt && rank >= 0 && int(rank) < len(p.Nodes) {
			return p.Nodes[rank]
		}
	}
	return ""
}

// OpenTunnel writes down that a tunnel is opened.
func (s *Service) OpenTunnel(ctx context.Context, req *v1.OpenTunnelRequest) (*v1.OpenTunnelResponse, error) {
	c := call.Of(ctx)
	id, ok := ident.ParseJob(req.GetOpening().GetJobId())
	if !ok {
		return nil, call.NotFound("job", req.GetOpening().GetJobId())
	}
	result, err := replica.Propose[jobverbs.TunnelResult](ctx, s.state, jobverbs.OpenTunnel{
		Tenant: c.Tenant, Job: id, What: what(req.GetOpening()), Actor: c.Actor(),
	})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.OpenTunnelResponse{}, nil
}

// what says what a tunnel leads to. Of a long command it has the beginning, and a digest of all of it.
func what(o *v1.TunnelOpening) string {
	if o.GetShell() == nil {
		return fmt.Sprintf("rank %d: port %d", o.GetRank(), o.GetPort())
	}
	words := make([]string, len(o.GetShell().GetCommand()))
	for i, word := range o.GetShell().GetCommand() {
		words[i] = word
		if strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == '"' || r == unicode.ReplacementChar }) || word == "" {
			words[i] = strconv.Quote(word)
		}
	}
	command := strings.Join(words, " ")
	if len(command) > maxNoted {
		command = fmt.Sprintf("%s… (%d bytes, sha256 %x)", call.Clip(command, maxNoted), len(command), sha256.Sum256([]byte(command)))
	}
	return fmt.Sprintf("rank %d: %s", o.GetRank(), command)
}

// maxNoted is how much of a command is in its audit record, in bytes.
const maxNoted = 800
