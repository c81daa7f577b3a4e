package coordinator

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// The calls of tenants about evaluations.

func (p *party) evaluationService() v1.EvaluationServiceClient {
	return v1.NewEvaluationServiceClient(p.c.members["c1"].conn)
}

// evaluate scores a job, a checkpoint of a job (the other tenant's, if the call is foreign), or a model of no tenant.
func (p *party) evaluate(call partyCall, with []grpc.CallOption) (proto.Message, error) {
	config := &v1.EvaluationConfig{Benchmarks: []*v1.Benchmark{{Name: p.mark + "-benchmark"}, {Name: "mmlu"}}}
	switch call.what {
	case "evaluate":
		config.JobId = p.pick("job", call)
	case "evaluate a checkpoint":
		config.JobId = p.pick("job", partyCall{n: call.n})
		config.CheckpointId = p.pick("ckpt", call)
	default:
		config.ModelUri = "hf://" + p.mark + "/model"
	}
	key := ""
	if call.k%2 == 0 {
		key = fmt.Sprintf("key-%d", call.k%3)
	}
	reply, err := p.evaluationService().SubmitEvaluation(p.ctx(key), &v1.SubmitEvaluationRequest{
		EvaluationConfig: config, Labels: map[string]string{"label": p.mark + "-label"},
		SchedulingConfig: &v1.SchedulingConfig{GracePeriodSeconds: proto.Int32(1)},
	}, with...)
	if id := reply.GetEvaluationId(); id != "" {
		before := len(p.jobs)
		if p.bore("job_" + strings.TrimPrefix(id, "eval_")); len(p.jobs) > before {
			p.evaluations = append(p.evaluations, id)
		}
	}
	return reply, err
}

// compare compares an evaluation of the party with another of its own, or with one of the other party.
func (p *party) compare(call partyCall, with []grpc.CallOption) (proto.Message, error) {
	ids := []string{p.pick("eval", partyCall{n: call.n}), p.pick("eval", partyCall{n: call.n + 1, foreign: call.foreign})}
	if ids[0] == nobodys["eval"] {
		ids[0] = ident.Job(1 << 59).EvaluationID() // Another unknown id.
	}
	return p.evaluationService().CompareEvaluations(p.ctx(""), &v1.CompareEvaluationsRequest{EvaluationIds: ids}, with...)
}

// score lets the running task of an evaluation report a result, and waits until it is registered.
func (p *party) score(evaluation string, k int) {
	job := "job_" + strings.TrimPrefix(evaluation, "eval_")
	if !p.agent.runs(job) {
		return
	}
	p.scored++
	want := fmt.Sprintf("%s says %d", p.mark, p.scored)
	p.agent.score(job, &v1.EvaluationReport{
		Benchmark: p.mark + "-benchmark", MetricsJson: fmt.Sprintf(`{%q: %d}`, p.mark+"-metric", k), NumSamples: int32(k), Error: want,
	})
	p.c.eventually("the result is never registered", func() bool {
		reply, err := p.evaluationService().GetEvaluation(p.ctx(""), &v1.GetEvaluationRequest{EvaluationId: evaluation})
		require.NoError(p.t, err)
		return len(reply.GetEvaluation().GetResults()) > 0 && reply.GetEvaluation().GetResults()[0].GetError() == want
	})
}

// score lets the running tasks of a job report a result.
func (a *scriptedAgent) score(job string, result *v1.EvaluationReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Evaluation{Evaluation: result}})
		}
	}
}
