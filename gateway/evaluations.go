package gateway

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func (s *server) submitEvaluation(x *rest.Request) error {
	body := &v1.NewEvaluation{}
	if _, err := x.Decode(body, false); err != nil {
		return err
	}
	request := &v1.SubmitEvaluationRequest{
		EvaluationConfig: &v1.EvaluationConfig{
			JobId: body.GetJobId(), ModelUri: body.GetModelUri(), CheckpointId: body.GetCheckpointId(), Benchmarks: body.GetBenchmarks(),
		},
		Name: body.GetName(), ResourceConfig: body.GetResourceConfig(), SchedulingConfig: body.GetSchedulingConfig(), Labels: body.GetLabels(),
	}
	return rest.Unary(x, request, s.evaluations.SubmitEvaluation, rest.Whole)
}
