package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// party is one tenant of one cluster. Its mark is in every text that it sends, so that it is recognized wherever it
// appears.
type party struct {
	t     require.TestingT
	c     *cluster
	agent *scriptedAgent
	mark  string
	// other is the tenant that shares the cluster; nil: none.
	other *party

	evaluations               []string // of the jobs
	scored                    int
	jobs, checkpoints, tokens []string // in the order of their creation
	since                     uint64   // the state before the first call
	asked                     []string // ids of the other that this one has guessed
}

// partyCall is one call, or an action of tasks. The numbers select among the existing objects.
type partyCall struct {
	what    string
	n, k    int
	foreign bool
}

func (p *party) tenant() string { return p.mark + "-tenant" }

func (p *party) ctx(key string) context.Context {
	return p.c.ctx(p.tenant(), key, status.KeyUser, p.mark+"-user", status.KeyRequestID, p.mark+"-request")
}

// operator is ctx for calls of operators.
func (p *party) operator() context.Context {
	return p.c.operator(p.tenant(), status.KeyUser, p.mark+"-user", status.KeyRequestID, p.mark+"-request")
}

func (p *party) jobService() v1.JobServiceClient         { return p.c.jobs("c1") }
func (p *party) clusterService() v1.ClusterServiceClient { return p.c.nodes("c1") }
func (p *party) tokenService() v1.TokenServiceClient {
	return v1.NewTokenServiceClient(p.c.members["c1"].conn)
}

// nobodys are ids that no log here reaches.
var nobodys = map[string]string{
	"job": ident.Job(1 << 60).String(), "ckpt": ident.Checkpoint(1 << 60).String(), "tok": ident.Token(1 << 60).String(),
	"eval": ident.Job(1 << 60).EvaluationID(),
}

// pick returns an id of a kind: the party's own, or one of the other party, which must be answered like an unknown id.
func (p *party) pick(kind string, call partyCall) string {
	of := func(p *party) []string {
		return map[string][]string{"job": p.jobs, "ckpt": p.checkpoints, "tok": p.tokens, "eval": p.evaluations}[kind]
	}
	ids := of(p)
	if call.foreign {
		if ids = nil; p.other != nil {
			ids = of(p.other)
		}
	}
	if len(ids) == 0 {
		return nobodys[kind]
	}
	id := ids[call.n%len(ids)]
	if call.foreign {
		p.asked = append(p.asked, id)
	}
	return id
}

// spec returns a job that runs at once, or one that no node can run.
func (p *party) spec(call partyCall) *v1.SubmitJobRequest {
	text := func(what string) string { return fmt.Sprintf("%s-%s-%d", p.mark, what, call.k%3) }
	req := &v1.SubmitJobRequest{
		Name: text("name"), Labels: map[string]string{text("label"): text("value"), "kind": text("kind")},
		CommandConfig:    &v1.CommandConfig{Argv: []string{"sleep", text("argument")}, Cwd: "/", Environment: map[string]string{"MARK": text("variable")}},
		OutputConfig:     &v1.OutputConfig{OutputDir: "/" + text("output")},
		ResourceConfig:   &v1.ResourceConfig{GpuCount: int32(1 + call.n%2)},
		SchedulingConfig: &v1.SchedulingConfig{Priority: proto.Int32(int32(call.n % 11)), GracePeriodSeconds: proto.Int32(1), AllowPendingCapacity: true},
	}
	if call.n%3 == 0 {
		req.ResourceConfig.NodeSelector = map[string]string{"name": "nowhere"} // The class and its reason are shared by all tenants.
		if call.k%2 == 0 {
			req.ResourceConfig.NodeSelector["name"] = text("nowhere")
		}
	}
	return req
}

// partyAnswer is the answer to a call. shown may be compared with the answer of another cluster; raw is the whole
// answer.
type partyAnswer struct{ shown, raw string }

// do makes a call, and waits until its effects are complete.
func (p *party) do(call partyCall) partyAnswer {
	var header, trailer metadata.MD
	with := []grpc.CallOption{grpc.Header(&header), grpc.Trailer(&trailer)}
	reply, err := p.make(call, with)
	a := p.answer(call.what, reply, err)
	for _, md := range []metadata.MD{header, trailer} {
		a.raw += fmt.Sprint(md)
	}
	p.rest()
	return a
}

func (p *party) make(call partyCall, with []grpc.CallOption) (proto.Message, error) {
	jobs, nodes, tokens, ctx := p.jobService(), p.clusterService(), p.tokenService(), p.ctx("")
	job := p.pick("job", call)
	switch call.what {
	case "submit":
		key := ""
		if call.k%2 == 0 {
			key = fmt.Sprintf("key-%d", call.k%3) // The same keys for all tenants.
		}
		reply, err := jobs.SubmitJob(p.ctx(key), p.spec(call), with...)
		p.bore(reply.GetJobId())
		return reply, err
	case "batch":
		wrong := p.spec(call)
		wrong.SchedulingConfig.Queue = "no-such-queue"
		reply, err := jobs.SubmitJobs(ctx, &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{p.spec(call), wrong, p.spec(partyCall{n: call.n + 1, k: call.k})}}, with...)
		for _, r := range reply.GetResults() {
			p.bore(r.GetJob().GetJobId())
		}
		return reply, err
	case "get":
		return jobs.GetJob(ctx, &v1.GetJobRequest{JobId: job}, with...)
	case "list":
		return jobs.ListJobs(ctx, &v1.ListJobsRequest{PageSize: int32(1 + call.k), OrderBy: []string{"created_at", "created_at desc", "priority desc"}[call.n%3]}, with...)
	case "list by label":
		mark := p.mark
		if call.foreign {
			if mark = "nobody"; p.other != nil {
				mark = p.other.mark
			}
		}
		return jobs.ListJobs(ctx, &v1.ListJobsRequest{Label: []string{fmt.Sprintf("kind=%s-kind-%d", mark, call.k%3)}}, with...)
	case "cancel":
		return jobs.CancelJob(ctx, &v1.CancelJobRequest{JobId: job, Reason: p.mark + "-canceled"}, with...)
	case "pause":
		return jobs.PauseJob(ctx, &v1.PauseJobRequest{JobId: job, SaveCheckpoint: proto.Bool(call.k%2 == 0)}, with...)
	case "resume":
		return jobs.ResumeJob(ctx, &v1.ResumeJobRequest{JobId: job}, with...)
	case "resume from another's":
		return jobs.ResumeJob(ctx, &v1.ResumeJobRequest{JobId: p.pick("job", partyCall{n: call.n}), CheckpointId: p.pick("ckpt", partyCall{n: call.n, foreign: true})}, with...)
	case "retry":
		return jobs.RetryJob(ctx, &v1.RetryJobRequest{JobId: job, ModifyResources: &v1.ResourceConfig{GpuCount: 1}}, with...)
	case "explain":
		return jobs.ExplainJob(ctx, &v1.ExplainJobRequest{JobId: job}, with...)
	case "metrics":
		return jobs.GetJobMetrics(ctx, &v1.GetJobMetricsRequest{JobId: job}, with...)
	case "series":
		return jobs.GetJobSeries(ctx, &v1.GetJobSeriesRequest{JobId: job}, with...)
	case "stream metrics":
		stream, err := jobs.StreamJobMetrics(ctx, &v1.StreamJobMetricsRequest{JobId: job, Follow: proto.Bool(false)}, with...)
		require.NoError(p.t, err)
		all := &v1.StreamJobMetricsResponse{}
		for {
			m, err := stream.Recv()
			if err != nil {
				return all, ended(err)
			}
			all.Entries = append(all.Entries, m.GetEntries()...)
		}
	case "logs":
		stream, err := jobs.StreamJobLogs(ctx, &v1.StreamJobLogsRequest{JobId: job, Follow: proto.Bool(false)}, with...)
		require.NoError(p.t, err)
		all := &v1.StreamJobLogsResponse{}
		for {
			m, err := stream.Recv()
			if err != nil {
				return all, ended(err)
			}
			all.Entries = append(all.Entries, m.GetEntries()...)
		}
	case "checkpoints":
		return jobs.ListCheckpoints(ctx, &v1.ListCheckpointsRequest{JobId: job}, with...)
	case "checkpoint":
		return jobs.GetCheckpoint(ctx, &v1.GetCheckpointRequest{CheckpointId: p.pick("ckpt", call)}, with...)
	case "delete checkpoint":
		return jobs.DeleteCheckpoint(ctx, &v1.DeleteCheckpointRequest{CheckpointId: p.pick("ckpt", call)}, with...)
	case "pin":
		return jobs.PinCheckpoint(ctx, &v1.PinCheckpointRequest{CheckpointId: p.pick("ckpt", call)}, with...)
	case "unpin":
		return jobs.UnpinCheckpoint(ctx, &v1.UnpinCheckpointRequest{CheckpointId: p.pick("ckpt", call)}, with...)
	case "queue":
		return nodes.GetQueue(ctx, &v1.GetQueueRequest{Limit: int32(call.k)}, with...)
	case "queues":
		return nodes.ListQueues(ctx, &v1.ListQueuesRequest{}, with...)
	case "policy":
		return nodes.GetPolicy(ctx, &v1.GetPolicyRequest{}, with...)
	case "put policy":
		return nodes.PutPolicy(ctx, &v1.PutPolicyRequest{Policy: &v1.Policy{AgingStepSeconds: proto.Int32(int32(3600 * (1 + call.n%2)))}}, with...)
	case "put queue":
		return nodes.PutQueue(ctx, &v1.PutQueueRequest{Name: "default", Weight: proto.Int32(1)}, with...)
	case "delete queue":
		return nodes.DeleteQueue(ctx, &v1.DeleteQueueRequest{Name: "default"}, with...)
	case "validate data":
		p.agent.keep(p.tenant(), "/"+p.mark+"-data")
		return v1.NewDataServiceClient(p.c.members["c1"].conn).ValidateData(ctx, &v1.ValidateDataRequest{
			Sources: []*v1.DataSource{{Path: "/" + p.mark + "-data"}, {Path: "/" + p.mark + "-other"}},
		}, with...)
	case "data cache":
		return v1.NewDataServiceClient(p.c.members["c1"].conn).GetDataCache(ctx, &v1.GetDataCacheRequest{}, with...)
	case "cluster":
		return nodes.GetCluster(ctx, &v1.GetClusterRequest{}, with...)
	case "nodes":
		return nodes.ListNodes(ctx, &v1.ListNodesRequest{}, with...)
	case "node":
		return nodes.GetNode(ctx, &v1.GetNodeRequest{NodeId: "n1"}, with...)
	case "drain":
		return nodes.DrainNode(ctx, &v1.DrainNodeRequest{NodeId: "n1", DryRun: true, Force: call.k%2 == 0, DeadlineSeconds: int32(call.n)}, with...)
	case "create token":
		digest := sha256.Sum256(fmt.Appendf(nil, "%s %d", p.mark, len(p.tokens)))
		reply, err := tokens.CreateToken(ctx, &v1.CreateTokenRequest{Digest: digest[:], Name: p.mark + "-token", Permissions: []string{p.mark + "-permission"}}, with...)
		if id := reply.GetToken().GetTokenId(); id != "" {
			p.tokens = append(p.tokens, id)
		}
		return reply, err
	case "tokens":
		return tokens.ListTokens(ctx, &v1.ListTokensRequest{}, with...)
	case "revoke token":
		return tokens.RevokeToken(ctx, &v1.RevokeTokenRequest{TokenId: p.pick("tok", call)}, with...)
	case "evaluate", "evaluate a checkpoint", "evaluate a model":
		return p.evaluate(call, with)
	case "evaluation":
		return p.evaluationService().GetEvaluation(ctx, &v1.GetEvaluationRequest{EvaluationId: p.pick("eval", call)}, with...)
	case "evaluations":
		return p.evaluationService().ListEvaluations(ctx, &v1.ListEvaluationsRequest{PageSize: int32(1 + call.k)}, with...)
	case "evaluations of":
		return p.evaluationService().ListEvaluations(ctx, &v1.ListEvaluationsRequest{JobId: job}, with...)
	case "compare":
		return p.compare(call, with)
	case "task scores":
		p.score(p.pick("eval", partyCall{n: call.n}), call.k)
	case "quota", "quotas", "put quota", "delete quota", "audit", "audit of an object", "enable", "forget":
		return p.administer(call, with)
	case "launchers":
		return p.c.launchers("c1").ListLaunchers(ctx, &v1.ListLaunchersRequest{}, with...)
	case "put launcher": // A launcher is shared by all tenants, so all put the same.
		return p.c.launchers("c1").PutLauncher(p.operator(), &v1.PutLauncherRequest{Launcher: &v1.Launcher{Framework: "FSDP", Argv: []string{"/opt/fsdp"}}}, with...)
	case "task writes":
		p.agent.write(p.pick("job", partyCall{n: call.n}), 1, p.mark+"-line")
	case "task saves":
		p.save(p.pick("job", partyCall{n: call.n}), int64(call.k))
	case "task fetches":
		return p.fetch(call, with)
	case "task ends":
		p.agent.end(p.pick("job", partyCall{n: call.n}), int32(call.k%2))
	default:
		require.FailNow(p.t, "unknown call", call.what)
	}
	return nil, nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// bore records a new job. An id that is already recorded was the answer to a repeated submit.
func (p *party) bore(job string) {
	if job != "" && !slices.Contains(p.jobs, job) {
		p.jobs = append(p.jobs, job)
	}
}

// save lets the running tasks of a job report a checkpoint, and waits until it is registered.
func (p *party) save(job string, step int64) {
	before := p.saved(job)
	reported := false
	p.agent.mu.Lock()
	for _, task := range p.agent.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			reported = true
			p.agent.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{
				Path: fmt.Sprintf("/%s-checkpoints/%d", p.mark, len(before)), Step: step, ManifestDigest: fmt.Sprintf("%s-digest-%d", p.mark, len(before)),
				SizeBytes: 1, MetricsJson: fmt.Sprintf(`{"note": "%s-metric"}`, p.mark),
			}}})
		}
	}
	p.agent.mu.Unlock()
	if !reported {
		return
	}
	p.c.eventually("the checkpoint is never registered", func() bool { return len(p.saved(job)) > len(before) })
	for _, id := range p.saved(job) {
		if !slices.Contains(p.checkpoints, id) {
			p.checkpoints = append(p.checkpoints, id)
		}
	}
}

func (p *party) saved(job string) []string {
	reply, err := p.jobService().ListCheckpoints(p.ctx(""), &v1.ListCheckpointsRequest{JobId: job})
	if err != nil {
		return nil
	}
	var ids []string
	for _, c := range reply.GetCheckpoints() {
		ids = append(ids, c.GetCheckpointId())
	}
	return ids
}

// rest waits until the party's jobs no longer change.
func (p *party) rest() {
	for _, id := range p.jobs {
		p.c.eventually("job "+id+" never comes to rest", func() bool {
			reply, err := p.jobService().GetJob(p.ctx(""), &v1.GetJobRequest{JobId: id})
			j := reply.GetJob()
			switch {
			case err != nil || j.GetStopping() != v1.StopReason_UNSPECIFIED:
				return false
			case j.GetState() == v1.JobState_QUEUED:
				return strings.Contains(j.GetReason(), "no ready node has these labels")
			}
			// A task whose end is already reported is about to change.
			return j.GetState() != v1.JobState_ALLOCATED && j.GetState() != v1.JobState_STARTING &&
				(j.GetState() != v1.JobState_RUNNING || p.agent.runs(id))
		})
	}
}

// runs reports whether a task of a job is alive here.
func (a *scriptedAgent) runs(job string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			return true
		}
	}
	return false
}

// answer returns an answer without the values that depend on all tenants: places in queues, free capacity, indices and
// times of the log.
func (p *party) answer(what string, reply proto.Message, err error) partyAnswer {
	if err != nil {
		s := grpcstatus.Convert(err)
		return partyAnswer{shown: s.Code().String() + ": " + p.anonymous(s.Message()), raw: s.Message() + fmt.Sprint(s.Details())}
	}
	if reply == nil {
		return partyAnswer{}
	}
	raw, err := protojson.Marshal(reply)
	require.NoError(p.t, err)
	return partyAnswer{shown: p.shown(what, string(raw)), raw: string(raw)}
}

// shown returns the part of a message that may be compared with another cluster's.
func (p *party) shown(what, raw string) string {
	var fields map[string]any
	require.NoError(p.t, json.Unmarshal([]byte(p.anonymous(raw)), &fields))
	if what == "cluster" {
		delete(fields, "gpusAllocated")
	}
	if lifecycle[what] {
		fields = nil // Its state is about to change; the final states are compared later.
	}
	shown, err := json.Marshal(withoutShared(fields))
	require.NoError(p.t, err)
	return string(shown)
}

var lifecycle = map[string]bool{"cancel": true, "pause": true, "resume": true, "retry": true, "resume from another's": true}

// sharedFields are the fields that depend on all tenants, as documented in docs/use/rest.md.
var sharedFields = map[string]bool{
	"index": true, "position": true, "queuePosition": true, "revision": true, "gpuAllocation": true, "gpusFree": true, "free": true,
	"nextPageToken": true, "cursor": true,
	// Times, and the GPUs of a task.
	"time": true, "timestamp": true, "createdAt": true, "startedAt": true, "finishedAt": true, "updatedAt": true, "reportedAt": true, "registeredAt": true, "lastSeenAt": true,
	// Estimates depend on measured durations, which differ between runs. TestTenancy_estimatesAreMadeOfTheTenantsOwn
	// and the scheduler's TestForesee_nothingOfAnotherTenantShows compare them exactly.
	"estimatedWaitSeconds": true, "estimatedStartAt": true,
	// Requests name jobs, and an id is as long as the index that it is made of.
	"specMb":  true,
	"stopsAt": true, "uuid": true, "nvlinkPeers": true, "pciBusId": true, "rosterCurrent": true,
	// Launchers are shared. Only the tenant of the user who put one last sees this user.
	"updatedBy": true,
}

var sharedDetail = regexp.MustCompile(`^ahead of it in queue .*: \d+ jobs?$|^starts (in|when) |^free now: \d+ GPUs? of the kind that it needs$`)

func withoutShared(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(name string, _ any) bool { return sharedFields[name] })
		for name, field := range v {
			switch list, _ := field.([]any); name {
			case "gpus":
				v[name] = byJob(list)
			case "effects": // A drain stops the jobs of all tenants; those of others are only counted.
				list = slices.DeleteFunc(list, func(e any) bool { return e.(map[string]any)["jobId"] == nil })
				if v[name] = withoutShared(list); len(list) == 0 {
					delete(v, name)
				}
			case "details":
				v[name] = slices.DeleteFunc(list, func(d any) bool { return sharedDetail.MatchString(d.(string)) })
			default:
				v[name] = withoutShared(field)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutShared(v[i])
		}
	}
	return v
}

// byJob counts the GPUs of each job, because the GPUs that a job gets depend on other tenants.
func byJob(gpus []any) map[string]int {
	counts := map[string]int{}
	for _, g := range gpus {
		if fields, ok := g.(map[string]any); ok {
			job, _ := fields["jobId"].(string)
			counts[job]++
		} else {
			counts["gpu"]++
		}
	}
	return counts
}

var anyID = regexp.MustCompile(`(job|ckpt|tok|eval)_[0-9a-z]+`)

// anonymous numbers the party's ids in the order of their creation, which is the same in every cluster.
func (p *party) anonymous(text string) string {
	return anyID.ReplaceAllStringFunc(text, func(id string) string {
		for kind, ids := range map[string][]string{"job": p.jobs, "ckpt": p.checkpoints, "tok": p.tokens, "eval": p.evaluations} {
			if i := slices.Index(ids, id); i >= 0 {
				return fmt.Sprintf("%s#%d", kind, i)
			}
		}
		return "nobody's"
	})
}

// leaks returns text of the other tenant that is in an answer; empty: none.
func (p *party) leaks(a partyAnswer) string {
	if p.other == nil {
		return ""
	}
	for _, id := range slices.Concat(p.other.jobs, p.other.checkpoints, p.other.tokens, p.other.evaluations) {
		if strings.Contains(a.raw, id) && !slices.Contains(p.asked, id) {
			return id
		}
	}
	if strings.Contains(a.raw, p.other.mark) {
		return p.other.mark
	}
	return ""
}
