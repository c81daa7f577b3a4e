package jobspec

import (
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

func TestDecode_isWhatWasEncoded(t *testing.T) {
	req := &v1.SubmitJobRequest{Name: "a", Labels: map[string]string{"x": "1", "y": "2", "z": "3"}}
	first, err := Encode(req)
	require.NoError(t, err)
	for range 20 { // Maps have no order, but the bytes must have one.
		again, err := Encode(proto.CloneOf(req))
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	got, err := Decode(&work.Job{Spec: first})
	require.NoError(t, err)
	require.True(t, proto.Equal(req, got))

	_, err = Decode(&work.Job{ID: 7, Spec: []byte{0xff}})
	require.ErrorContains(t, err, "reading the request of job "+ident.Job(7).String())
}

// Fingerprints are in the state: a version with other fingerprints would refuse requests that were accepted under the
// same key.
func TestFingerprint_isThatOfEarlierVersions(t *testing.T) {
	encoded := []byte("what was asked")
	require.Equal(t, xxhash.Sum64(encoded), Fingerprint(encoded))
	require.Equal(t, xxhash.Sum64(append(encoded[:len(encoded):len(encoded)], "evaluation"...)), Fingerprint(encoded, []byte("evaluation")...))
	require.Equal(t, uint64(0xd29cf677b0f7829), Fingerprint(encoded))
}

func TestInputs_areTheModelAndTheData(t *testing.T) {
	for name, c := range map[string]struct {
		req  *v1.SubmitJobRequest
		want []string
	}{
		"a command": {&v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{}}, []string{""}},
		"a training": {&v1.SubmitJobRequest{
			TrainingConfig: &v1.TrainingConfig{BaseModel: &v1.BaseModel{ModelId: "scaiatlas://acme/m"}},
			DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "scaidrive://acme/d"}}},
		}, []string{"scaiatlas://acme/m", "scaidrive://acme/d"}},
		"an evaluation of a model": {&v1.SubmitJobRequest{EvaluationConfig: &v1.EvaluationConfig{ModelUri: "hf://o/m"}}, []string{"hf://models/o/m"}},
		"an evaluation with data": {&v1.SubmitJobRequest{EvaluationConfig: &v1.EvaluationConfig{
			CheckpointId: "c", Benchmarks: []*v1.Benchmark{
				{Name: "a", Dataset: "scaidrive://acme/d"},
				{Name: "b", Dataset: "scaidrive://acme/d"},
				{Name: "c", Dataset: "/rows.jsonl"},
				{Name: "d", Dataset: "file:///rows.jsonl"},
				{Name: "e", Dataset: "s3://b/rows.jsonl"},
				{Name: "f"},
			},
		}}, []string{"", "scaidrive://acme/d", "s3://b/rows.jsonl"}},
		"an evaluation of a checkpoint": {&v1.SubmitJobRequest{EvaluationConfig: &v1.EvaluationConfig{
			CheckpointId: "c", ModelUri: "hf://o/m",
		}}, []string{""}},
	} {
		require.Equal(t, c.want, Inputs(c.req), name)
	}
}

// BenchmarkDecode measures the decoding of one job's request, which a list does for each job.
func BenchmarkDecode(b *testing.B) {
	spec, err := Encode(&v1.SubmitJobRequest{
		Name: "support-lora-v3",
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_LORA, BaseModel: &v1.BaseModel{ModelId: "mistral-7b"},
			Framework: &v1.Framework{Type: v1.FrameworkType_HF_TRAINER, Distributed: &v1.Distributed{Backend: "nccl", WorldSize: 8}},
		},
		DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "/data/train.jsonl"}}, GradientAccumulationSteps: 1},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 8},
		Labels:         map[string]string{"team": "nlp"},
	})
	require.NoError(b, err)
	j := &work.Job{Spec: spec}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(j); err != nil {
			b.Fatal(err)
		}
	}
}
