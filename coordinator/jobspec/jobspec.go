// Package jobspec encodes the request of a job for the replicated state, and decodes it.
//
// Guarantees. Encode returns the same bytes for the same request, so that fingerprints can be compared. Only Decode reads a
// request from the state; for the state itself it is opaque bytes.
//
// Not guaranteed: that a request is valid. Package admission checks it before it is accepted; a request that an older
// version accepted may break a current rule. Nothing is cached: most of the cost of a decoded request is its copy into the
// answer.
package jobspec

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/model"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// MaxBytes limits an encoded request.
const MaxBytes = 256 << 10

var deterministic = proto.MarshalOptions{Deterministic: true}

// Encode returns the same bytes for the same message.
func Encode(message proto.Message) ([]byte, error) { return deterministic.Marshal(message) }

// Fingerprint distinguishes requests with the same idempotency key. salt distinguishes kinds of requests with the same
// encoding.
func Fingerprint(encoded []byte, salt ...byte) uint64 {
	h := xxhash.New()
	_, _ = h.Write(encoded)
	_, _ = h.Write(salt)
	return h.Sum64()
}

// Decode returns the request of a job as it was accepted, with the resources of its newest retry.
func Decode(j *work.Job) (*v1.SubmitJobRequest, error) {
	var request v1.SubmitJobRequest
	if err := proto.Unmarshal(j.Spec, &request); err != nil {
		return nil, fmt.Errorf("reading the request of job %s: %w", j.ID, err)
	}
	return &request, nil
}

// Inputs lists what the nodes may have to fetch for a job: its model and its data.
func Inputs(req *v1.SubmitJobRequest) []string {
	paths := []string{modelSource(req)}
	for _, source := range req.GetDataConfig().GetSources() {
		paths = append(paths, source.GetPath())
	}
	return append(paths, model.Datasets(req.GetEvaluationConfig())...)
}

// modelSource returns the source from which the model of a job is fetched; empty: it is not fetched, or is a
// checkpoint.
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
