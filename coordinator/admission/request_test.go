package admission

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// largest returns a hundred equal nodes with a number of linked GPUs; 0: no node.
func largest(gpus int) *capacity.Capacity {
	c := capacity.New()
	for i := range min(100, 100*gpus) {
		n := &work.Node{ID: fmt.Sprint("n", i), CPUs: 64, MemMB: 1 << 20, Labels: map[string]string{"a": "2", "z": "1"}}
		for g := range gpus {
			n.GPUs = append(n.GPUs, work.GPU{Index: uint8(g), Model: "NVIDIA H100 80GB", Type: "H100", MemMB: 81_559, NVLink: 1<<gpus - 1})
		}
		c.Put(n)
	}
	return c
}

func trainingJob() *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "support-lora-v3",
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_LORA,
			BaseModel:    &v1.BaseModel{ModelId: "mistral-7b"},
			Framework:    &v1.Framework{Type: v1.FrameworkType_HF_TRAINER},
		},
		DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "/data/train.jsonl"}}},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 8},
	}
}

func commandJob() *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name:           "sleep",
		CommandConfig:  &v1.CommandConfig{Argv: []string{"/bin/sleep", "1"}, Cwd: "/"},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 1},
	}
}

func TestNewJob_whatIsLeftUnsaid(t *testing.T) {
	j, err := Parse(commandJob(), largest(8))
	require.NoError(t, err)
	require.Equal(t, "default", j.Queue)
	require.EqualValues(t, 5, j.Priority)
	require.Equal(t, work.RetryPolicy{On: work.RetryAll}, j.Retry)
	require.Zero(t, j.Grace, "the state knows the default")
	require.Equal(t, work.Shape{Nodes: 1, GPUs: 1}, j.Shape)
	var kept v1.SubmitJobRequest
	require.NoError(t, proto.Unmarshal(j.Spec, &kept))
	require.True(t, proto.Equal(commandJob(), &kept))

	nameless := commandJob()
	nameless.Name = ""
	j, err = Parse(nameless, largest(8))
	require.NoError(t, err)
	require.Equal(t, "sleep", j.Name)
}

func TestNewJob_whatIsSaid(t *testing.T) {
	req := trainingJob()
	req.TrainingConfig.Priority = proto.Int32(0)
	req.TrainingConfig.MaxRetries = proto.Int32(2)
	req.TrainingConfig.Framework.Distributed = &v1.Distributed{WorldSize: 8}
	req.TrainingConfig.ResumeFromCheckpoint = ident.Checkpoint(77).String()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	req.SchedulingConfig = &v1.SchedulingConfig{
		Queue: "night", MaxRetries: proto.Int32(2), RetryOn: []string{"exit", "gpu_fault"}, Preemptible: proto.Bool(true),
		MaxRuntimeSeconds: 60, LostAfterSeconds: 10, GiveUpAfterSeconds: 100, GracePeriodSeconds: proto.Int32(0), NotBefore: timestamppb.New(at),
	}
	req.Labels = map[string]string{"team": "a"}
	j, err := Parse(req, largest(8))
	require.NoError(t, err)
	j.Spec, j.Fingerprint = nil, 0
	require.Equal(t, jobverbs.NewJob{
		Name: "support-lora-v3", Queue: "night", Priority: 0, Shape: work.Shape{Nodes: 1, GPUs: 8}, Labels: map[string]string{"team": "a"},
		Retry: work.RetryPolicy{Max: 2, On: work.RetryExit | work.RetryGPUFault}, Preemptible: true,
		MaxRuntime: 60e9, LostAfter: 10e9, GiveUpAfter: 100e9, Grace: -1, NotBefore: at.UnixNano(), ResumeFrom: 77,
	}, j)
}

// Published defaults are shown and passed to the task. The values of the caller do not change, and neither does the
// fingerprint that identifies a repeated request.
func TestNewJob_publishedDefaultsAreFilledIn(t *testing.T) {
	req := trainingJob()
	req.TrainingConfig.Framework.Distributed = &v1.Distributed{}
	sent := proto.CloneOf(req)
	job, err := Parse(req, largest(8))
	require.NoError(t, err)
	require.True(t, proto.Equal(sent, req))
	text, err := jobspec.Encode(sent)
	require.NoError(t, err)
	require.Equal(t, xxhash.Sum64(text), job.Fingerprint)
	var spec v1.SubmitJobRequest
	require.NoError(t, proto.Unmarshal(job.Spec, &spec))
	require.EqualValues(t, 1, spec.GetDataConfig().GetGradientAccumulationSteps())
	require.Equal(t, "nccl", spec.GetTrainingConfig().GetFramework().GetDistributed().GetBackend())

	req.DataConfig.GradientAccumulationSteps, req.TrainingConfig.Framework.Distributed.Backend = 4, "gloo"
	job, err = Parse(req, largest(8))
	require.NoError(t, err)
	spec.Reset()
	require.NoError(t, proto.Unmarshal(job.Spec, &spec))
	require.True(t, proto.Equal(req, &spec))
}

func TestNewJob_theFingerprintTellsRequestsApart(t *testing.T) {
	req := commandJob()
	req.Labels = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
	first, err := Parse(req, largest(8))
	require.NoError(t, err)
	for range 20 {
		again, err := Parse(proto.CloneOf(req), largest(8))
		require.NoError(t, err)
		require.Equal(t, first.Fingerprint, again.Fingerprint)
	}
	req.Labels["d"] = "5"
	other, err := Parse(req, largest(8))
	require.NoError(t, err)
	require.NotEqual(t, first.Fingerprint, other.Fingerprint)
}

func TestNewJob_shapes(t *testing.T) {
	for name, tt := range map[string]struct {
		resources *v1.ResourceConfig
		want      work.Shape
	}{
		"nothing said":                   {nil, work.Shape{Nodes: 1}},
		"CPU only":                       {&v1.ResourceConfig{CpuCount: 4, MemoryMb: 1024}, work.Shape{Nodes: 1, CPUs: 4, MemMB: 1024}},
		"a CPU gang":                     {&v1.ResourceConfig{CpuCount: 4, NodeCount: 3}, work.Shape{Nodes: 3, CPUs: 4}},
		"fits one node":                  {&v1.ResourceConfig{GpuCount: 8}, work.Shape{Nodes: 1, GPUs: 8}},
		"a command is never spread":      {&v1.ResourceConfig{GpuCount: 16}, work.Shape{Nodes: 1, GPUs: 16}},
		"nodes said":                     {&v1.ResourceConfig{GpuCount: 4, NodeCount: 4}, work.Shape{Nodes: 4, GPUs: 1}},
		"a fraction":                     {&v1.ResourceConfig{GpuFraction: 0.25}, work.Shape{Nodes: 1, FractionMilli: 250}},
		"an odd fraction":                {&v1.ResourceConfig{GpuFraction: 1.0 / 3}, work.Shape{Nodes: 1, FractionMilli: 333}},
		"type, memory, topology, labels": {&v1.ResourceConfig{GpuCount: 2, GpuType: "H100", GpuMemoryMb: 80000, Topology: "nvlink", NodeSelector: map[string]string{"z": "1", "a": "2"}}, work.Shape{Nodes: 1, GPUs: 2, GPUType: "H100", GPUMemMB: 80000, Topology: work.TopologyNVLink, Selector: "a=2,z=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := commandJob()
			req.ResourceConfig = tt.resources
			j, err := Parse(req, largest(8))
			require.NoError(t, err)
			require.Equal(t, tt.want, j.Shape)
		})
	}
}

// A training that its launcher starts on every node is spread over as few nodes as can hold it. A program that uses one
// node only is not spread.
func TestNewJob_spreadsTrainingsAlone(t *testing.T) {
	custom := func(d *v1.Distributed) func(*v1.SubmitJobRequest) {
		return func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework = &v1.Framework{Type: v1.FrameworkType_CUSTOM, CustomScriptPath: "/train.py", Distributed: d}
		}
	}
	for name, tt := range map[string]struct {
		largest   int
		resources *v1.ResourceConfig
		change    func(*v1.SubmitJobRequest)
		want      work.Shape
	}{
		"fits one node":                 {8, &v1.ResourceConfig{GpuCount: 8}, nil, work.Shape{Nodes: 1, GPUs: 8}},
		"more than one node has":        {8, &v1.ResourceConfig{GpuCount: 16}, nil, work.Shape{Nodes: 2, GPUs: 8}},
		"equal shares":                  {8, &v1.ResourceConfig{GpuCount: 12}, nil, work.Shape{Nodes: 2, GPUs: 6}},
		"a prime number, small nodes":   {4, &v1.ResourceConfig{GpuCount: 7}, nil, work.Shape{Nodes: 7, GPUs: 1}},
		"more than there are":           {4, &v1.ResourceConfig{GpuCount: 1000}, nil, work.Shape{Nodes: 250, GPUs: 4}},
		"no node known":                 {0, &v1.ResourceConfig{GpuCount: 16}, nil, work.Shape{Nodes: 2, GPUs: 8}},
		"nodes said":                    {8, &v1.ResourceConfig{GpuCount: 8, NodeCount: 4}, nil, work.Shape{Nodes: 4, GPUs: 2}},
		"a single node is never spread": {8, &v1.ResourceConfig{GpuCount: 16, Topology: "single_node"}, nil, work.Shape{Nodes: 1, GPUs: 16, Topology: work.TopologySingleNode}},
		"a script of one's own":         {8, &v1.ResourceConfig{GpuCount: 16}, custom(nil), work.Shape{Nodes: 1, GPUs: 16}},
		"a script for several nodes":    {8, &v1.ResourceConfig{GpuCount: 16}, custom(&v1.Distributed{}), work.Shape{Nodes: 2, GPUs: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			req := trainingJob()
			req.ResourceConfig = tt.resources
			if tt.change != nil {
				tt.change(req)
			}
			j, err := Parse(req, largest(tt.largest))
			require.NoError(t, err)
			require.Equal(t, tt.want, j.Shape)
		})
	}
}

func TestNewJob_refusesAndNamesTheField(t *testing.T) {
	type change = func(r *v1.SubmitJobRequest)
	scheduling := func(s *v1.SchedulingConfig) change {
		return func(r *v1.SubmitJobRequest) { r.SchedulingConfig = s }
	}
	resources := func(c *v1.ResourceConfig) change {
		return func(r *v1.SubmitJobRequest) { r.ResourceConfig = c }
	}
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	for name, tt := range map[string]struct {
		base   func() *v1.SubmitJobRequest
		change change
		field  string
		says   string
	}{
		"nothing runs":       {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig = nil }, "command_config", "say what runs"},
		"two things run":     {trainingJob, func(r *v1.SubmitJobRequest) { r.CommandConfig = commandJob().CommandConfig }, "command_config", "not both"},
		"data for a command": {commandJob, func(r *v1.SubmitJobRequest) { r.DataConfig = trainingJob().DataConfig }, "data_config", "training_config"},
		"empty argv":         {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Argv = nil }, "command_config.argv", "give the program"},
		"empty program":      {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Argv[0] = "" }, "command_config.argv", "first element"},
		"argv and command":   {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Command = "ls" }, "command_config.argv", "not both"},
		"too many arguments": {commandJob, func(r *v1.SubmitJobRequest) {
			r.CommandConfig.Argv = make([]string, maxArgs+1)
			r.CommandConfig.Argv[0] = "x"
		}, "command_config.argv", "at most 4096"},
		"no cwd": {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Cwd = "" }, "command_config.cwd", "is required"},
		"cwd out of the upload": {commandJob, func(r *v1.SubmitJobRequest) {
			r.CommandConfig.Upload, r.CommandConfig.Cwd = "sha256:"+strings.Repeat("0", 64), "a/../.."
		}, "command_config.cwd", "leads out of the upload"},
		"no upload":          {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Upload = "sha256:X" }, "command_config.upload", "is no upload"},
		"relative cwd":       {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Cwd = "runs" }, "command_config.cwd", "absolute"},
		"NUL":                {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Argv[1] = "a\x00" }, "command_config", "NUL"},
		"variable with =":    {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Environment = map[string]string{"A=B": ""} }, "command_config.environment", "A=B"},
		"too many variables": {commandJob, func(r *v1.SubmitJobRequest) { r.CommandConfig.Environment = many(maxEnv + 1) }, "command_config.environment", "at most 1024"},
		"large environment": {commandJob, func(r *v1.SubmitJobRequest) {
			r.CommandConfig.Environment = map[string]string{"A": strings.Repeat("x", maxEnvBytes)}
		}, "command_config.environment", "bytes"},
		"training, no name":   {trainingJob, func(r *v1.SubmitJobRequest) { r.Name = " " }, "name", "is required"},
		"long name":           {commandJob, func(r *v1.SubmitJobRequest) { r.Name = strings.Repeat("x", MaxName+1) }, "name", "257"},
		"name with a newline": {commandJob, func(r *v1.SubmitJobRequest) { r.Name = "a\nb" }, "name", "control"},
		"label key":           {commandJob, func(r *v1.SubmitJobRequest) { r.Labels = map[string]string{"a=b": "c"} }, "labels", "a=b"},
		"long label":          {commandJob, func(r *v1.SubmitJobRequest) { r.Labels = map[string]string{"a": strings.Repeat("x", maxLabelVal+1)} }, "labels", "longer"},
		"too many labels":     {commandJob, func(r *v1.SubmitJobRequest) { r.Labels = many(maxLabels + 1) }, "labels", "at most 64"},
		"relative output":     {commandJob, func(r *v1.SubmitJobRequest) { r.OutputConfig = &v1.OutputConfig{OutputDir: "out"} }, "output_config.output_dir", "absolute"},
		"negative keep":       {commandJob, func(r *v1.SubmitJobRequest) { r.OutputConfig = &v1.OutputConfig{KeepCheckpoints: -1} }, "output_config.keep_checkpoints", "must not be negative; 0 keeps all"},
		"best of all":         {commandJob, func(r *v1.SubmitJobRequest) { r.OutputConfig = &v1.OutputConfig{KeepBest: 3, KeepBestMetric: "loss"} }, "output_config.keep_best", "needs keep_checkpoints"},
		"best by nothing": {commandJob, func(r *v1.SubmitJobRequest) {
			r.OutputConfig = &v1.OutputConfig{KeepCheckpoints: 3, KeepBest: 3, KeepBestMetric: "+"}
		}, "output_config.keep_best_metric", "name the metric"},
		"metric for nothing":    {commandJob, func(r *v1.SubmitJobRequest) { r.OutputConfig = &v1.OutputConfig{KeepBestMetric: "loss"} }, "output_config.keep_best_metric", "has an effect with keep_best only"},
		"negative best":         {commandJob, func(r *v1.SubmitJobRequest) { r.OutputConfig = &v1.OutputConfig{KeepCheckpoints: 3, KeepBest: -1} }, "output_config.keep_best", "must not be negative"},
		"export":                {commandJob, func(r *v1.SubmitJobRequest) { r.OutputConfig = &v1.OutputConfig{Export: "pickle"} }, "output_config.export", "is not one of safetensors, adapter, sharded, none"},
		"negative GPUs":         {commandJob, resources(&v1.ResourceConfig{GpuCount: -1}), "resource_config.gpu_count", "-1"},
		"fraction of 1":         {commandJob, resources(&v1.ResourceConfig{GpuFraction: 1}), "resource_config.gpu_fraction", "between 0 and 1"},
		"fraction NaN":          {commandJob, resources(&v1.ResourceConfig{GpuFraction: math.NaN()}), "resource_config.gpu_fraction", "between"},
		"negative fraction":     {commandJob, resources(&v1.ResourceConfig{GpuFraction: -0.5}), "resource_config.gpu_fraction", "between"},
		"fraction and count":    {commandJob, resources(&v1.ResourceConfig{GpuFraction: 0.5, GpuCount: 1}), "resource_config.gpu_fraction", "cannot be combined with gpu_count"},
		"fraction on two nodes": {commandJob, resources(&v1.ResourceConfig{GpuFraction: 0.5, NodeCount: 2}), "resource_config.gpu_fraction", "one GPU"},
		"uneven gang":           {commandJob, resources(&v1.ResourceConfig{GpuCount: 5, NodeCount: 2}), "resource_config.gpu_count", "equally"},
		"more than a node can":  {commandJob, resources(&v1.ResourceConfig{GpuCount: 130, NodeCount: 2}), "resource_config.gpu_count", "no node has 65 GPUs; the largest has 8; 26 nodes could hold them"},
		"topology":              {commandJob, resources(&v1.ResourceConfig{Topology: "ring"}), "resource_config.topology", "ring"},
		"single_node on two":    {commandJob, resources(&v1.ResourceConfig{GpuCount: 4, NodeCount: 2, Topology: "single_node"}), "resource_config.node_count", "single_node"},
		"type without GPUs":     {commandJob, resources(&v1.ResourceConfig{GpuType: "H100"}), "resource_config.gpu_count", "is 0"},
		"selector value":        {commandJob, resources(&v1.ResourceConfig{NodeSelector: map[string]string{"a": "b,c=d"}}), "resource_config.node_selector", "must not contain"},
		"negative memory":       {commandJob, resources(&v1.ResourceConfig{MemoryMb: -5}), "resource_config.memory_mb", "-5"},
		"priority 11":           {commandJob, scheduling(&v1.SchedulingConfig{Priority: proto.Int32(11)}), "scheduling_config.priority", "11"},
		"priority -1":           {commandJob, scheduling(&v1.SchedulingConfig{Priority: proto.Int32(-1)}), "scheduling_config.priority", "-1"},
		"retries":               {commandJob, scheduling(&v1.SchedulingConfig{MaxRetries: proto.Int32(-1)}), "scheduling_config.max_retries", "-1"},
		"retry_on":              {commandJob, scheduling(&v1.SchedulingConfig{RetryOn: []string{"moon"}}), "scheduling_config.retry_on", "gpu_fault"},
		"lost_after":            {commandJob, scheduling(&v1.SchedulingConfig{LostAfterSeconds: 9}), "scheduling_config.lost_after_seconds", "at least 10"},
		"negative runtime":      {commandJob, scheduling(&v1.SchedulingConfig{MaxRuntimeSeconds: -1}), "scheduling_config.max_runtime_seconds", "-1"},
		"not a time":            {commandJob, scheduling(&v1.SchedulingConfig{NotBefore: &timestamppb.Timestamp{Nanos: -1}}), "scheduling_config.not_before", "not a time"},
		"far too late":          {commandJob, scheduling(&v1.SchedulingConfig{NotBefore: &timestamppb.Timestamp{Seconds: 1e11}}), "scheduling_config.not_before", "too far"},
		"dependencies":          {commandJob, scheduling(&v1.SchedulingConfig{Dependencies: []*v1.Dependency{{JobId: "x"}}}), "scheduling_config.dependencies[0].job_id", "not a job id"},
		"condition":             {commandJob, scheduling(&v1.SchedulingConfig{Dependencies: []*v1.Dependency{{JobId: "job_1", Condition: "maybe"}}}), "scheduling_config.dependencies[0].condition", "not one of"},
		"array":                 {commandJob, scheduling(&v1.SchedulingConfig{Array: &v1.ArraySpec{Start: 10, End: 9}}), "scheduling_config.array", "must not be above"},
		"array of millions":     {commandJob, scheduling(&v1.SchedulingConfig{Array: &v1.ArraySpec{End: 1_000_000}}), "scheduling_config.array", "between 0 and 131071"},
		"array less than none":  {commandJob, scheduling(&v1.SchedulingConfig{Array: &v1.ArraySpec{MaxParallel: -1}}), "scheduling_config.array.max_parallel", "must not be negative"},
		"training without GPUs": {trainingJob, resources(&v1.ResourceConfig{}), "resource_config.gpu_count", "at least 1"},
		"no training type":      {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.TrainingType = 0 }, "training_config.training_type", "required"},
		"unknown training type": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.TrainingType = 99 }, "training_config.training_type", "99"},
		"a model of no scheme":  {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.BaseModel.ModelId = "ftp://h/m" }, "training_config.base_model.model_id", "ftp:// is not supported"},
		"a model with a secret": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.BaseModel.ModelId = "https://u:p@h/m" }, "training_config.base_model.model_id", "name or password"},
		"two revisions": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.BaseModel = &v1.BaseModel{ModelId: "hf://a/b@v1", Revision: "v2"}
		}, "training_config.base_model.model_id", "different revisions"},
		"a local name": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.BaseModel = &v1.BaseModel{ModelId: "m", Source: "local"}
		}, "training_config.base_model.model_id", "absolute path"},
		"no model":           {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.BaseModel = nil }, "training_config.base_model.model_id", "required"},
		"no framework":       {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework = nil }, "training_config.framework.type", "required"},
		"CUSTOM, no script":  {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.Type = v1.FrameworkType_CUSTOM }, "training_config.framework.custom_script_path", "required"},
		"script, not CUSTOM": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.CustomScriptPath = "/x" }, "training_config.framework.custom_script_path", "CUSTOM"},
		"script not absolute": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework = &v1.Framework{Type: v1.FrameworkType_CUSTOM, CustomScriptPath: "train.py"}
		}, "training_config.framework.custom_script_path", "absolute"},
		"negative world size": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework.Distributed = &v1.Distributed{WorldSize: -1}
		}, "training_config.framework.distributed.world_size", "negative"},
		"a NUL for a program": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.BaseModel.ModelId = "a\x00b" }, "training_config", "NUL"},
		"a nameless hyperparameter": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Hyperparameters = map[string]string{"": "x"}
		}, "training_config.hyperparameters", "not a valid name of a hyperparameter"},
		"no sources":          {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig = nil }, "data_config.sources", "at least one"},
		"source without path": {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.Sources[0].Path = "" }, "data_config.sources[0].path", "required"},
		"a negative step":     {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.GradientAccumulationSteps = -1 }, "data_config.gradient_accumulation_steps", "must not be negative"},
		"a negative batch":    {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.BatchSize = -8 }, "data_config.batch_size", "must not be negative"},
		"a negative length":   {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.MaxSeqLength = -1 }, "data_config.max_seq_length", "must not be negative"},
		"negative workers":    {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.NumWorkers = -1 }, "data_config.num_workers", "must not be negative"},
		"validation split":    {trainingJob, func(r *v1.SubmitJobRequest) { r.DataConfig.ValidationSplit = 1.5 }, "data_config.validation_split", "1.5"},
		"world size":          {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.Distributed = &v1.Distributed{WorldSize: 4} }, "training_config.framework.distributed.world_size", "is 4"},
		"priority given twice": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Priority, r.SchedulingConfig = proto.Int32(1), &v1.SchedulingConfig{Priority: proto.Int32(2)}
		}, "scheduling_config.priority", "give it only once"},
		"retries given twice": {trainingJob, func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.MaxRetries, r.SchedulingConfig = proto.Int32(0), &v1.SchedulingConfig{MaxRetries: proto.Int32(2)}
		}, "scheduling_config.max_retries", "give it only once"},
		"resume from nothing": {trainingJob, func(r *v1.SubmitJobRequest) { r.TrainingConfig.ResumeFromCheckpoint = "latest" }, "training_config.resume_from_checkpoint", "latest"},
		"a huge job": {commandJob, func(r *v1.SubmitJobRequest) {
			r.CommandConfig.Argv = append(r.CommandConfig.Argv, strings.Repeat("x", jobspec.MaxBytes))
		}, "request", "put large inputs into files"},
	} {
		t.Run(name, func(t *testing.T) {
			req := tt.base()
			_, err := Parse(req, largest(8))
			require.NoError(t, err, "the request is sound before it is spoiled")
			tt.change(req)
			_, err = Parse(req, largest(8))
			var wrong *call.Invalid
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, tt.field, wrong.Field)
			require.Contains(t, wrong.Message, tt.says)
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(call.ToStatus(err)))
			require.NotErrorAs(t, err, new(*call.ManyInvalid), "one mistake is one fault")
		})
	}
}

func TestNewJob_namesAllFaultsAtOnce(t *testing.T) {
	_, err := Parse(&v1.SubmitJobRequest{
		CommandConfig:    &v1.CommandConfig{Cwd: "runs", Environment: map[string]string{"A=B": "", "": "x"}},
		ResourceConfig:   &v1.ResourceConfig{GpuCount: -1, NodeCount: 5000, Topology: "ring", NodeSelector: map[string]string{"a": "b,c", "d": "e=f"}},
		SchedulingConfig: &v1.SchedulingConfig{Priority: proto.Int32(11), MaxRetries: proto.Int32(-1), LostAfterSeconds: 1, RetryOn: []string{"moon"}},
		OutputConfig:     &v1.OutputConfig{OutputDir: "out", KeepCheckpoints: -1},
		Labels:           map[string]string{"x=y": "z"},
	}, largest(8))
	lines := strings.Split(err.Error(), "\n")
	var fields []string
	for _, line := range lines {
		field, _, _ := strings.Cut(line, ": ")
		fields = append(fields, field)
	}
	require.Equal(t, []string{
		"command_config.argv", "command_config.cwd", "command_config.environment", "command_config.environment",
		"resource_config.gpu_count", "resource_config.node_count", "resource_config.topology", "resource_config.node_selector", "resource_config.node_selector",
		"scheduling_config.priority", "scheduling_config.max_retries", "scheduling_config.retry_on", "scheduling_config.lost_after_seconds",
		"labels", "output_config.output_dir", "output_config.keep_checkpoints",
	}, fields)
	require.Equal(t, codes.InvalidArgument, grpcstatus.Code(call.ToStatus(err)))
	require.Equal(t, err.Error(), grpcstatus.Convert(call.ToStatus(err)).Message())

	_, err = Parse(&v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{}}, largest(8))
	require.Equal(t, 6, strings.Count(err.Error(), "is required")+strings.Count(err.Error(), "is empty")+strings.Count(err.Error(), "at least 1"), err)
	require.Equal(t, 5, strings.Count(err.Error(), "\n"), "a fault that follows from another is not reported: %s", err)
}

func TestParse_aCommandWithAnUpload(t *testing.T) {
	for _, cwd := range []string{"", "src", "a/b", "/somewhere"} {
		r := commandJob()
		r.CommandConfig.Upload, r.CommandConfig.Cwd = "sha256:"+strings.Repeat("0a", 32), cwd
		_, err := Parse(r, largest(8))
		require.NoError(t, err, cwd)
	}
}
