package coordinator

import (
	"github.com/mindcoordinator/mind/api/model"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// checkModel refuses a model that no node could ever have.
func checkModel(m *v1.BaseModel) error {
	const field = "training_config.base_model.model_id"
	ref, err := model.OfTraining(m)
	if err != nil {
		return &call.Invalid{Field: field, Message: err.Error()}
	}
	if ref.Source == "" {
		return nil // the program knows
	}
	return checkSource(field, ref.Source)
}

// checkModelURI does the same for what an evaluation scores.
func checkModelURI(uri string) error {
	if uri == "" {
		return nil
	}
	if err := checkURI("model_uri", uri); err != nil {
		return err
	}
	ref, err := model.OfURI(uri)
	if err != nil {
		return &call.Invalid{Field: "model_uri", Message: err.Error()}
	}
	return checkSource("model_uri", ref.Source)
}

// modelSource is where the model of a job is fetched from; empty: it is not, or is a checkpoint.
func modelSource(req *v1.SubmitJobRequest) string {
	ref := model.Ref{}
	switch {
	case req.GetTrainingConfig() != nil:
		ref, _ = model.OfTraining(req.GetTrainingConfig().GetBaseModel())
	case req.GetEvaluationConfig().GetCheckpointId() == "":
		ref, _ = model.OfURI(req.GetEvaluationConfig().GetModelUri())
	}
	return ref.Source
}
