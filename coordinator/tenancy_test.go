package coordinator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// partyCalls are the calls of a tenant, each as often as it should be drawn.
var partyCalls = []string{
	"submit", "submit", "submit", "submit", "batch", "get", "list", "list by label", "cancel", "pause", "resume", "resume from another's", "retry",
	"explain", "metrics", "series", "stream metrics", "logs", "checkpoints", "checkpoint", "delete checkpoint", "pin", "unpin", "queue", "queues", "put queue", "delete queue", "validate data", "data cache",
	"cluster", "nodes", "node", "drain", "create token", "tokens", "revoke token", "launchers", "put launcher", "task writes", "task saves", "task saves", "task fetches", "task ends",
	"quota", "quotas", "put quota", "put quota", "delete quota", "audit", "audit of an object", "enable", "forget",
	"evaluate", "evaluate a checkpoint", "evaluate a model", "evaluation", "evaluations", "evaluations of", "compare", "task scores",
}

// prelude gives both tenants something of every kind, under the same idempotency key.
var prelude = []partyCall{
	{what: "submit", n: 1, k: 0},
	{what: "submit", n: 3, k: 1},
	{what: "task writes"},
	{what: "task saves"},
	{what: "create token"},
	{what: "put launcher"},
	{what: "put quota", n: 20},
	{what: "evaluate", k: 1},
	{what: "evaluate a model", k: 1},
	{what: "task scores"},
	{what: "task fetches", k: 3},
}

// byID are the calls that name an object. Each is made with an object of the other tenant.
var byID = []string{
	"get", "explain", "metrics", "series", "stream metrics", "logs", "checkpoints", "checkpoint", "list by label", "cancel", "pause", "resume",
	"resume from another's", "retry", "delete checkpoint", "pin", "unpin", "revoke token", "evaluate", "evaluate a checkpoint", "evaluation", "evaluations of",
	"compare", "quota", "put quota", "delete quota", "audit",
}

// lastLook are the calls at the end, which read everything that a tenant can see.
var lastLook = []string{
	"list", "queue", "queues", "put queue", "validate data", "data cache", "cluster", "nodes", "node", "drain", "tokens", "evaluations", "launchers", "quota", "quotas", "audit", "enable", "forget",
}

type partyStep struct {
	second bool // made by the second party
	call   partyCall
}

func drawSteps(t *rapid.T) []partyStep {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) partyStep {
		return partyStep{rapid.Bool().Draw(t, "second"), partyCall{
			what: rapid.SampledFrom(partyCalls).Draw(t, "what"), n: rapid.IntRange(0, 30).Draw(t, "n"),
			k: rapid.IntRange(0, 9).Draw(t, "k"), foreign: rapid.IntRange(0, 2).Draw(t, "foreign") == 0,
		}}
	}), 5, 20).Draw(t, "steps")
}

// tenancyRuns bounds the sequences: each makes some hundred calls to real clusters.
const tenancyRuns = 3

// One tenant makes the same calls to a cluster of its own and to one that it shares with a second tenant. No answer to
// either has text of the other. The first tenant gets the same answers in both clusters, except for the fields that are
// documented as shared.
func TestTenancy_nothingOfOneShowsInAnswersToAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		patient := func(c *Config) { c.Timers.UnreachableAfter, c.Timers.Denials = 10*time.Minute, time.Hour }
		own, shared := startCluster(t, 1, patient), startCluster(t, 1, patient)
		ownAgent, sharedAgent := own.agent("n1", 64), shared.agent("n1", 64)
		for _, a := range []*scriptedAgent{ownAgent, sharedAgent} {
			a.mu.Lock()
			for i := range 64 {
				a.samples = append(a.samples, sampleOf(i, 50, 1000))
			}
			a.mu.Unlock()
		}
		runs, failed := 0, false
		rapid.Check(endless{t}, func(rt *rapid.T) {
			steps := drawSteps(rt)
			if runs++; runs > tenancyRuns && !failed {
				return
			}
			was := failed
			failed = true // until proven otherwise
			alone := &party{t: rt, c: own, agent: ownAgent, mark: fmt.Sprintf("alpha%dx", runs)}
			first := &party{t: rt, c: shared, agent: sharedAgent, mark: alone.mark}
			second := &party{t: rt, c: shared, agent: sharedAgent, mark: fmt.Sprintf("bravo%dx", runs), other: first}
			first.other = second
			all := []*party{alone, first, second}
			for _, p := range all {
				p.begin()
			}
			defer func() {
				for _, p := range all {
					p.leave()
				}
			}()
			one := func(call partyCall) {
				want, got := alone.do(call), first.do(call)
				require.Empty(rt, first.leaks(got), "%+v answers the first with something of the second: %s", call, got.raw)
				if want.shown != got.shown {
					t.Logf("%+v: alone %s, beside the second tenant %s", call, want.shown, got.shown)
				}
				require.Equal(rt, want.shown, got.shown, "%+v is answered otherwise because of the second tenant", call)
			}
			other := func(call partyCall) {
				got := second.do(call)
				require.Empty(rt, second.leaks(got), "%+v answers the second with something of the first: %s", call, got.raw)
			}
			for _, call := range prelude {
				other(call)
				one(call)
			}
			for _, s := range steps {
				if s.second {
					other(s.call)
				} else {
					one(s.call)
				}
			}
			for _, what := range byID {
				one(partyCall{what: what, foreign: true})
				other(partyCall{what: what, foreign: true})
			}
			for _, what := range lastLook {
				one(partyCall{what: what, k: 9})
				other(partyCall{what: what, k: 9})
			}
			for i := range first.jobs {
				for _, what := range []string{"get", "explain", "checkpoints", "logs", "metrics"} {
					one(partyCall{what: what, n: i})
				}
			}
			require.Equal(rt, alone.history(), first.history())
			second.history()
			failed = was
		})
	})
}

// endless is a test without a deadline: the deadline is in real time, and a bubble has its own time.
type endless struct{ rapid.TB }

// begin records the index at which the party begins.
func (p *party) begin() {
	reply, err := p.c.operators("c1").ReadIndex(p.c.ctx("", ""), &v1.ReadIndexRequest{})
	require.NoError(p.t, err)
	p.since = reply.GetIndex()
}

// leave ends the party's running jobs.
func (p *party) leave() {
	for _, id := range p.jobs {
		_, _ = p.jobService().CancelJob(p.ctx(""), &v1.CancelJobRequest{JobId: id}) // the job may be over
	}
	p.rest()
}

// history returns all events since the party's begin, by job in order. None may belong to the other party.
func (p *party) history() map[string][]string {
	_, _ = p.c.quotas("c1").DeleteQuota(p.ctx(""), &v1.DeleteQuotaRequest{}) // There may be no quota. One more job must be accepted.
	last, err := p.jobService().SubmitJob(p.ctx(""), p.spec(partyCall{n: 3}))
	require.NoError(p.t, err)
	p.bore(last.GetJobId())
	p.rest()
	stream, err := v1.NewEventServiceClient(p.c.members["c1"].conn).WatchEvents(p.ctx(""), &v1.WatchEventsRequest{SinceIndex: proto.Uint64(p.since)})
	require.NoError(p.t, err)
	events := map[string][]string{}
	for {
		m, err := stream.Recv()
		require.NoError(p.t, err)
		for _, e := range m.GetEvents() {
			raw, err := protojson.Marshal(e)
			require.NoError(p.t, err)
			require.Empty(p.t, p.leaks(partyAnswer{raw: string(raw)}), "an event tells of the other tenant: %s", raw)
			switch e.GetTopic() {
			case "job", "lease", "checkpoint":
			default:
				continue // An event of the cluster itself.
			}
			name := p.anonymous(e.GetJobId())
			require.True(p.t, strings.HasPrefix(name, "job#"), "an event of a job that the tenant does not have: %s", raw)
			events[name] = append(events[name], p.shown("event", string(raw)))
			if e.GetJobId() == last.GetJobId() {
				return events
			}
		}
	}
}

// ReadTaskSeries returns one series of every task.
func (a *scriptedAgent) ReadTaskSeries(_ context.Context, req *v1.ReadTaskSeriesRequest) (*v1.ReadTaskSeriesResponse, error) {
	out := &v1.ReadTaskSeriesResponse{}
	if spec := a.has(req.GetJobId()); spec != nil {
		out.Series = []*v1.MetricSeries{{Name: "of " + spec.GetJob().GetName(), Attempt: req.GetAttempt(), Rank: req.GetRank(), Points: []*v1.MetricPoint{{Count: 1}}}}
	}
	return out, nil
}

// ReadTaskMetrics returns one metric of every task.
func (a *scriptedAgent) ReadTaskMetrics(req *v1.ReadTaskMetricsRequest, stream grpc.ServerStreamingServer[v1.ReadTaskMetricsResponse]) error {
	out := &v1.ReadTaskMetricsResponse{Eof: true}
	if spec := a.has(req.GetJobId()); spec != nil && req.GetOffset() == 0 {
		out.Entries = []*v1.TaskMetricsEntry{{Offset: 1, UnixNanos: 1, Json: fmt.Sprintf(`{"of": %q}`, spec.GetJob().GetName())}}
	}
	return stream.Send(out)
}
