package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/fsm"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func commandJob() *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name:           "hello",
		CommandConfig:  &v1.CommandConfig{Argv: []string{"true"}, Cwd: "/"},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 1},
	}
}

func trainingJob() *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "support-lora-v3",
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_LORA,
			BaseModel:    &v1.BaseModel{ModelId: "mistral-7b"},
			Framework:    &v1.Framework{Type: v1.FrameworkType_HF_TRAINER},
		},
		DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "file:///data/train.jsonl"}}},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 8},
	}
}

func TestNewJob_fillsInWhatIsLeftUnsaid(t *testing.T) {
	j, err := newJob("acme", "ann", "auto:1", commandJob(), 8)
	require.NoError(t, err)
	require.Equal(t, "default", j.Queue)
	require.EqualValues(t, 5, j.Priority)
	require.Equal(t, fsm.RetryPolicy{Max: 0, On: fsm.RetryDefault}, j.Retry)
	require.EqualValues(t, 60*time.Second, j.LostAfter)
	require.EqualValues(t, 24*time.Hour, j.GiveUpAfter)
	require.EqualValues(t, 30*time.Second, j.Grace)
	require.Zero(t, j.MaxRuntime)
	require.True(t, j.AutoKey)
	require.Equal(t, fsm.Shape{Nodes: 1, GPUs: 1}, j.Shape)
	var kept v1.SubmitJobRequest
	require.NoError(t, proto.Unmarshal(j.Spec, &kept))
	require.True(t, proto.Equal(commandJob(), &kept))
}

func TestNewJob_theFingerprintTellsRequestsApart(t *testing.T) {
	a, err := newJob("acme", "", "", commandJob(), 0)
	require.NoError(t, err)
	b, err := newJob("acme", "", "", commandJob(), 0)
	require.NoError(t, err)
	require.Equal(t, a.Fingerprint, b.Fingerprint)
	other := commandJob()
	other.CommandConfig.Argv = []string{"false"}
	c, err := newJob("acme", "", "", other, 0)
	require.NoError(t, err)
	require.NotEqual(t, a.Fingerprint, c.Fingerprint)
}

func TestNewJob_shapes(t *testing.T) {
	for name, tc := range map[string]struct {
		resources *v1.ResourceConfig
		largest   int
		want      fsm.Shape
	}{
		"CPU only":                            {&v1.ResourceConfig{CpuCount: 4, MemoryMb: 1024}, 8, fsm.Shape{Nodes: 1, CPUs: 4, MemMB: 1024}},
		"nothing said":                        {nil, 8, fsm.Shape{Nodes: 1}},
		"fits one node":                       {&v1.ResourceConfig{GpuCount: 8}, 8, fsm.Shape{Nodes: 1, GPUs: 8}},
		"more than one node has":              {&v1.ResourceConfig{GpuCount: 16}, 8, fsm.Shape{Nodes: 2, GPUs: 8}},
		"spread evenly":                       {&v1.ResourceConfig{GpuCount: 12}, 8, fsm.Shape{Nodes: 2, GPUs: 6}},
		"no node known":                       {&v1.ResourceConfig{GpuCount: 16}, 0, fsm.Shape{Nodes: 1, GPUs: 16}},
		"nodes said":                          {&v1.ResourceConfig{GpuCount: 4, NodeCount: 4}, 8, fsm.Shape{Nodes: 4, GPUs: 1}},
		"single node is never spread":         {&v1.ResourceConfig{GpuCount: 16, Topology: "single_node"}, 8, fsm.Shape{Nodes: 1, GPUs: 16, Topology: fsm.TopologySingleNode}},
		"a fraction":                          {&v1.ResourceConfig{GpuFraction: 0.25}, 8, fsm.Shape{Nodes: 1, FractionMilli: 250}},
		"type, memory, topology":              {&v1.ResourceConfig{GpuCount: 2, GpuType: "H100", GpuMemoryMb: 80000, Topology: "nvlink"}, 8, fsm.Shape{Nodes: 1, GPUs: 2, GPUType: "H100", GPUMemMB: 80000, Topology: fsm.TopologyNVLink}},
		"a prime number of GPUs, small nodes": {&v1.ResourceConfig{GpuCount: 7}, 4, fsm.Shape{Nodes: 7, GPUs: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			req := commandJob()
			req.ResourceConfig = tc.resources
			j, err := newJob("acme", "", "", req, tc.largest)
			require.NoError(t, err)
			require.Equal(t, tc.want, j.Shape)
		})
	}
}

func TestNewJob_refusesAndSaysWhichField(t *testing.T) {
	for name, tc := range map[string]struct {
		base   func() *v1.SubmitJobRequest
		change func(*v1.SubmitJobRequest)
		says   string
	}{
		"no name":            {commandJob, func(r *v1.SubmitJobRequest) { r.Name = " " }, "name is required"},
		"long name":          {commandJob, func(r *v1.SubmitJobRequest) { r.Name = strings.Repeat("x", 300) }, "name has 300"},
		"label key with =":   {commandJob, func(r *v1.SubmitJobRequest) { r.Labels = map[string]string{"a=b": "c"} }, "labels"},
		"nothing runs":       {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig = nil }, "say what runs"},
		"both":               {trainingJob, func(r *v1.SubmitJobRequest) { r.CommandConfig = commandJob().CommandConfig }, "not both"},
		"empty argv":         {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Argv = nil }, "command_config.argv"},
		"argv and command":   {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Command = "ls" }, "not both"},
		"no cwd":             {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Cwd = "" }, "command_config.cwd is required"},
		"relative cwd":       {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Cwd = "runs" }, "absolute"},
		"bad variable":       {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Environment = map[string]string{"A=B": ""} }, "environment"},
		"negative GPUs":      {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig.GpuCount = -1 }, "gpu_count -1"},
		"fraction of 1":      {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig = &v1.ResourceConfig{GpuFraction: 1} }, "gpu_fraction"},
		"fraction and count": {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig.GpuFraction = 0.5 }, "gpu_fraction"},
		"uneven gang":        {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig = &v1.ResourceConfig{GpuCount: 5, NodeCount: 2} }, "evenly"},
		"topology":           {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig.Topology = "ring" }, "topology"},
		"single_node on two": {commandJob, func(r *v1.SubmitJobRequest) {
			r.ResourceConfig = &v1.ResourceConfig{GpuCount: 4, NodeCount: 2, Topology: "single_node"}
		}, "single_node"},
		"type without GPUs": {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig = &v1.ResourceConfig{GpuType: "H100"} }, "gpu_type"},
		"negative memory":   {commandJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig.MemoryMb = -5 }, "memory_mb"},
		"priority 11":       {commandJob, func(r *v1.SubmitJobRequest) { r.SchedulingConfig = &v1.SchedulingConfig{Priority: proto.Int32(11)} }, "priority is 11"},
		"retry_on":          {commandJob, func(r *v1.SubmitJobRequest) { r.SchedulingConfig = &v1.SchedulingConfig{RetryOn: []string{"moon"}} }, "gpu_fault"},
		"lost_after":        {commandJob, func(r *v1.SubmitJobRequest) { r.SchedulingConfig = &v1.SchedulingConfig{LostAfterSeconds: 9} }, "lost_after_seconds"},
		"array":             {commandJob, func(r *v1.SubmitJobRequest) { r.SchedulingConfig = &v1.SchedulingConfig{Array: &v1.ArraySpec{End: 9}} }, "array is not supported"},
		"dependency": {commandJob, func(r *v1.SubmitJobRequest) {
			r.SchedulingConfig = &v1.SchedulingConfig{Dependencies: []*v1.Dependency{{JobId: "x"}}}
		}, "no job id"},
		"training without GPUs": {trainingJob, func(r *v1.SubmitJobRequest) { r.ResourceConfig.GpuCount = 0 }, "gpu_count is 0"},
		"no training type":      {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.TrainingType = 0 }, "training_type is required"},
		"no model":              {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.BaseModel = nil }, "model_id"},
		"no framework":          {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework = nil }, "framework.type"},
		"CUSTOM without script": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.Type = v1.FrameworkType_CUSTOM }, "custom_script_path"},
		"MEGATRON and LORA":     {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.Type = v1.FrameworkType_MEGATRON }, "not supported by framework"},
		"no sources":            {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig = nil }, "data_config.sources"},
		"source without path":   {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.Sources[0].Path = "" }, "sources[0].path"},
		"validation split":      {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.ValidationSplit = 1.5 }, "validation_split"},
		"world size":            {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.Distributed = &v1.Distributed{WorldSize: 4} }, "world_size is 4"},
		"retries given twice": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.MaxRetries = proto.Int32(1)
			r.SchedulingConfig = &v1.SchedulingConfig{MaxRetries: proto.Int32(2)}
		}, "max_retries is 2 in scheduling_config and 1"},
		"resume from nothing": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.ResumeFromCheckpoint = "latest" }, "no checkpoint id"},
		"a huge job": {commandJob, func(r *v1.SubmitJobRequest) {
			r.CommandConfig.Argv = append(r.CommandConfig.Argv, strings.Repeat("x", maxSpecBytes))
		}, "put large inputs into files"},
	} {
		t.Run(name, func(t *testing.T) {
			req := tc.base()
			_, err := newJob("acme", "", "", req, 8)
			require.NoError(t, err, "the request is sound before it is spoiled")
			tc.change(req)
			_, err = newJob("acme", "", "", req, 8)
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			require.Contains(t, err.Error(), tc.says)
		})
	}
}

func TestNewJob_saysAllFaultsAtOnce(t *testing.T) {
	_, err := newJob("acme", "", "", &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{}}, 8)
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "argv")
	require.ErrorContains(t, err, "cwd")
}
