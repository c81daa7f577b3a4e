package gateway

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func submitEvaluation(x *exchange) error {
	body := &v1.NewEvaluation{}
	if _, err := x.decode(body, false); err != nil {
		return err
	}
	request := &v1.SubmitEvaluationRequest{
		EvaluationConfig: &v1.EvaluationConfig{
			JobId: body.GetJobId(), ModelUri: body.GetModelUri(), CheckpointId: body.GetCheckpointId(), Benchmarks: body.GetBenchmarks(),
		},
		Name: body.GetName(), ResourceConfig: body.GetResourceConfig(), SchedulingConfig: body.GetSchedulingConfig(), Labels: body.GetLabels(),
	}
	return unary(x, request, x.server.evaluations.SubmitEvaluation, whole)
}

func listEvaluations(x *exchange) error {
	query := x.r.URL.Query()
	request := &v1.ListEvaluationsRequest{JobId: query.Get("job_id"), PageToken: query.Get("page_token")}
	var faults []wire.Fault
	request.Status, faults = wire.Statuses(query, faults)
	if request.PageSize, faults = wire.Int(query, "page_size", 1, 100, faults); len(faults) > 0 {
		return invalidBody(faults)
	}
	return unary(x, request, x.server.evaluations.ListEvaluations, whole)
}

func compareEvaluations(x *exchange) error {
	request := &v1.CompareEvaluationsRequest{}
	for _, given := range x.r.URL.Query()["ids"] {
		for id := range strings.SplitSeq(given, ",") {
			if id = strings.TrimSpace(id); id != "" {
				request.EvaluationIds = append(request.EvaluationIds, id)
			}
		}
	}
	if len(request.GetEvaluationIds()) < 2 {
		return invalidBody([]wire.Fault{{Field: "ids", Message: "must name at least two evaluations, as in ?ids=eval_1,eval_2"}})
	}
	return unary(x, request, x.server.evaluations.CompareEvaluations, whole)
}
