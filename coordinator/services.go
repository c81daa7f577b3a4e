package coordinator

import (
	"context"
	"sync"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/access"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/cores"
	"github.com/mindcoordinator/mind/coordinator/data"
	"github.com/mindcoordinator/mind/coordinator/evaluations"
	"github.com/mindcoordinator/mind/coordinator/events"
	"github.com/mindcoordinator/mind/coordinator/flows"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/interpreter"
	"github.com/mindcoordinator/mind/coordinator/jobs"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/members"
	"github.com/mindcoordinator/mind/coordinator/notify"
	"github.com/mindcoordinator/mind/coordinator/output"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/coordinator/replay"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/schedules"
	"github.com/mindcoordinator/mind/coordinator/selfcheck"
	"github.com/mindcoordinator/mind/coordinator/tunnels"
	"github.com/mindcoordinator/mind/coordinator/upgrade"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/work"
)

// makeServices creates the services that answer calls. They do not know each other: their dependencies are passed in
// here.
func (s *server) makeServices() (err error) {
	if err := s.makeJobServices(); err != nil {
		return err
	}
	s.output, err = output.New(output.Config{
		State: s.replica, Agents: s.agents, Archive: s.config.LogArchive, TLS: s.tls, Registry: s.config.Registry, Log: s.log,
	})
	s.events = events.New(s.replica, jobview.StatusIn)
	s.selfcheck = selfcheck.New(s.replica, s.config.Timers.SelfCheck, s.config.Registry, s.log)
	s.access = access.New(access.Config{
		Replica: s.replica, InWords: jobview.InWords, DenialsEvery: s.config.Timers.Denials, AuditRecords: s.config.Limits.AuditRecords, Log: s.log,
	})
	s.admin = admin.New(admin.Config{
		Replica: s.replica, Liveness: s.coordinatorLiveness, Sessions: s.sessions, Agents: s.agents, Log: s.log,
		Activity: func(ctx context.Context, node string) map[string]*v1.NodeActivity {
			return s.sessions.Activity(ctx, node)
		},
	})
	var listed []coordinators.Coordinator
	for _, p := range s.config.Peers {
		listed = append(listed, coordinators.Coordinator{ID: p.ID, RaftAddr: p.RaftAddr, GRPCAddr: p.GRPCAddr, HTTPAddr: p.HTTPAddr})
	}
	s.recovery = recovery.New(recovery.Config{
		Replica: s.replica, Machine: s.machine, Listed: listed, RaftAddr: s.self().RaftAddr, DataDir: s.config.DataDir,
		LogStore: s.config.LogStore, Program: s.config.Program, Unready: s.unready, Log: s.log,
	})
	changing := &sync.Mutex{}
	s.upgrade = upgrade.New(upgrade.Config{
		Replica: s.replica, Listed: listed, Manual: s.config.Raise == RaiseManual, Program: s.config.Program, Changing: changing, Log: s.log,
	})
	s.members = members.New(members.Config{
		Replica: s.replica, Self: s.self(), Listed: listed, TLS: s.tls, Liveness: s.coordinatorLiveness, LeaderWait: s.config.Timers.LeaderWait, Changing: changing, Log: s.log,
		JoinVia: func() []string { return append(s.recovery.Found(), s.config.JoinVia...) },
	})
	return err
}

// makeJobServices creates the services that answer calls about jobs, and the parts that they share.
func (s *server) makeJobServices() (err error) {
	s.capacity = admission.NewCapacity(s.replica.View)
	s.forecasts = forecast.New(s.config.Limits.EstimateRest, s.metrics.Estimated)
	if s.notices, err = notify.New(notify.Config{
		Settings: s.config.Webhooks, State: s.replica, Tried: s.metrics.Noticed, TriedOfJob: s.metrics.NoticedOfJob,
		Transport: s.config.WebhookTransport, Log: s.log,
		Show: func(d *executions.Decision) map[string]any {
			return programs.SetFields(cores.DecisionShown(s.replica.View(), d))
		},
		ShowJob: func(j *work.Job) map[string]any { return programs.SetFields(jobview.Told(s.replica.View(), j)) },
	}); err != nil {
		return err
	}
	admitted := admission.New(s.replica, s.capacity, s.sealer, admin.LauncherInForce, s.notices.Check)
	s.jobs = jobs.New(jobs.Config{
		State: s.replica, Admission: admitted, Sealer: s.sealer, Forecasts: s.forecasts, Replays: replay.New(s.replica.ID(), s.replica.Past),
		RenewsThroughPeers: s.sessions.RenewsThroughPeers, EntryBytes: s.config.Limits.EntryBytes,
	})
	s.evaluations = evaluations.New(s.replica, admitted, s.forecasts)
	cache := &programs.Cache{}
	s.cores = cores.New(cores.Config{State: s.replica, Sealer: s.sealer, Programs: cache, Notifies: s.notices.Check, Log: s.log})
	s.interpreter = interpreter.New(interpreter.Config{
		State: s.replica, Admission: admitted, Evaluations: s.evaluations, Programs: cache, Open: s.cores.OpenEnvironment,
		Notifies: s.notices.Check, NotifyURL: s.config.Webhooks.URL, Advanced: s.metrics.Advanced, Log: s.log,
	})
	if s.flows, err = flows.New(flows.Config{State: s.replica, Cores: s.cores, Archive: s.config.FlowArchive, Log: s.log}); err != nil {
		return err
	}
	s.schedules = schedules.New(schedules.Config{State: s.replica, Admission: admitted, Ran: s.metrics.Ran, Log: s.log})
	s.data = data.New(s.replica, s.agents, s.log)
	return nil
}

// Several services may implement one gRPC service; the types below combine them.
type (
	outputs        = output.Service
	checker        = selfcheck.Service
	administration = admin.Service
	membership     = members.Service
	levels         = upgrade.Service
	beginner       = recovery.Service
	reads          = replica.Replica
	relay          = tunnels.Service

	jobService struct {
		*jobs.Service
		*outputs
		*relay
	}
	clusterService struct {
		unansweredCluster
		*administration
		queued
	}
	operatorService struct {
		*server
		*membership
		*levels
		*beginner
		*checker
		*reads
	}
	agentService struct {
		*server
		*outputs
	}
)

// queued is the part of the cluster service that the jobs service implements.
type queued interface {
	GetQueue(context.Context, *v1.GetQueueRequest) (*v1.GetQueueResponse, error)
}

// unansweredCluster implements the remaining methods.
type unansweredCluster struct {
	v1.UnimplementedClusterServiceServer
}
