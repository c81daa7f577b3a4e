package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/raftnode"
)

// inbox receives an agent's messages and commits its reports.
type inbox struct {
	service *Service
	table   *Table
	session *session
	kept    uint64 // version of the roster that the agent last reported
	uploads pace

	mu      sync.Mutex
	reports []*v1.Report
	gpus    []*v1.Gpu
	unfit   *string // why the node cannot start tasks, if that has changed
	fresh   chan struct{}
}

// receive receives messages until the stream ends.
func (in *inbox) receive(stream v1.AgentService_SessionServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		now := time.Now()
		in.session.Hear(now)
		switch body := req.GetBody().(type) {
		case *v1.SessionRequest_Heartbeat:
			in.session.Beat(body.Heartbeat.GetSeq(), now)
			in.table.AskRenewal()
			if kept := body.Heartbeat.GetRosterVersion(); kept != in.kept {
				in.kept = kept
				in.table.keep(in.session.Node(), kept)
			}
			in.session.samples.put(body.Heartbeat.GetSamples())
			if len(body.Heartbeat.GetGpus()) > 0 || body.Heartbeat.Unfit != nil {
				in.put(nil, body.Heartbeat.GetGpus(), body.Heartbeat.Unfit)
			}
		case *v1.SessionRequest_Reports:
			if !in.put(body.Reports.GetReports(), nil, nil) {
				return call.Errorf(codes.ResourceExhausted, "too many reports wait to be committed")
			}
		case *v1.SessionRequest_Relayed:
			in.relay(body.Relayed, now)
		default:
			return call.Bad("session", "only heartbeats, reports and renewals of others follow a hello")
		}
	}
}

func (in *inbox) put(reports []*v1.Report, gpus []*v1.Gpu, unfit *string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.reports)+len(reports) > maxPending {
		return false
	}
	in.reports = append(in.reports, reports...)
	if gpus != nil {
		in.gpus = gpus
	}
	if unfit != nil {
		in.unfit = unfit
	}
	select {
	case in.fresh <- struct{}{}:
	default:
	}
	return true
}

func (in *inbox) take() (reports []*v1.Report, gpus []*v1.Gpu, unfit *string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for bytes := 0; n < min(len(in.reports), maxReports); n++ {
		if bytes += proto.Size(in.reports[n]); bytes > maxReportBytes && n > 0 {
			break
		}
	}
	reports, in.reports = in.reports[:n:n], in.reports[n:]
	gpus, in.gpus = in.gpus, nil
	unfit, in.unfit = in.unfit, nil
	return reports, gpus, unfit
}

// commit commits the reports that have accumulated, in batches, until the session ends.
func (in *inbox) commit() error {
	ctx := in.session.ctx
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-in.fresh:
		}
		for {
			reports, gpus, unfit := in.take()
			if len(reports) == 0 && gpus == nil && unfit == nil {
				break
			}
			if err := in.propose(ctx, reports, gpus, unfit); err != nil {
				return err
			}
		}
	}
}

func (in *inbox) propose(ctx context.Context, reports []*v1.Report, gpus []*v1.Gpu, unfit *string) error {
	// A fault of the node is reported before the end of the tasks that it causes.
	if unfit != nil {
		command := nodeverbs.SetNode{ID: in.session.Node(), Action: nodeverbs.NodeFitness, Reason: unfitOf(*unfit)}
		if _, err := patiently[nodeverbs.NodeResult](ctx, in.service.replica, command); err != nil {
			return err
		}
	}
	if gpus != nil {
		// The state refuses this only if the node was forgotten meanwhile. The next session registers it again.
		command := nodeverbs.SetNode{ID: in.session.Node(), Action: nodeverbs.NodeHealth, GPUs: gpusOf(gpus)}
		if _, err := patiently[nodeverbs.NodeResult](ctx, in.service.replica, command); err != nil {
			return err
		}
	}
	if len(reports) == 0 {
		return nil
	}
	command, last := Reports(in.session.Node(), reports)
	for i := range command.Reports {
		if g := command.Reports[i].Gate; g != nil {
			g.NotifyURL = in.service.config.NotifyURL
		}
	}
	if len(command.Reports) > 0 {
		if _, err := patiently[jobverbs.ReportResult](ctx, in.service.replica, command); err != nil {
			return err
		}
	}
	saved := CheckpointReports(in.session.Node(), reports)
	saved.Reports = in.uploads.thin(saved.Reports, time.Now())
	// Below that level no checkpoints were ordered.
	if len(saved.Reports) > 0 {
		if _, err := patiently[checkpointverbs.ReportResult](ctx, in.service.replica, saved); err != nil {
			return err
		}
	}
	in.session.reported.Store(max(last, in.session.reported.Load()))
	in.session.poke()
	return nil
}

// patiently repeats a proposal while too many writes wait: an agent cannot report elsewhere.
func patiently[R any](ctx context.Context, state State, command kernel.Command) (R, error) {
	for {
		result, err := replica.Propose[R](ctx, state, command)
		if !errors.Is(err, raftnode.ErrBacklogFull) {
			return result, err
		}
		wait.For(ctx, backlogPause)
	}
}

// relay passes on the renewal of another node.
func (in *inbox) relay(r *v1.Renewal, now time.Time) {
	row, ok := in.service.replica.View().Node(r.GetNodeId())
	if !ok || !in.table.Liveness.Relay(in.session.Presence, row, r, now) {
		return
	}
	signal(in.table.rosterDue)
	in.table.AskRenewal()
}
