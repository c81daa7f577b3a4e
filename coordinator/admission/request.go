package admission

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// Defaults of a job.
const (
	defaultPriority = 5
	defaultQueue    = "default"
)

// Parse turns a request into a job to create, or returns all faults. It reads nothing but its arguments.
func Parse(req *v1.SubmitJobRequest, inv Inventory) (jobverbs.NewJob, error) {
	var f call.Faults
	f.Add(checkWhatRuns(req))
	shape := shapeOf(&f, req, inv)
	job := schedulingOf(&f, req)
	job.Shape = shape
	job.Name = nameOf(&f, req)
	job.Notices = noticesOf(&f, req)
	checkLabels(&f, "labels", req.GetLabels())
	job.Labels = req.GetLabels()
	checkOutput(&f, req.GetOutputConfig())
	job.Retention = retentionOf(req.GetOutputConfig())
	job.Scores, _ = ident.ParseCheckpoint(req.GetEvaluationConfig().GetCheckpointId())
	if resume := req.GetTrainingConfig().GetResumeFromCheckpoint(); resume != "" {
		id, ok := ident.ParseCheckpoint(resume)
		if !ok {
			f.Bad("training_config.resume_from_checkpoint", "%q is not a checkpoint id", resume)
		}
		job.ResumeFrom = id
	}
	err := f.Err()
	if err != nil {
		return job, err
	}
	if job.Spec, err = jobspec.Encode(req); err != nil {
		return job, call.Bad("request", "not encodable: %v", err)
	}
	if len(job.Spec) > jobspec.MaxBytes {
		return job, call.Bad("request", "has %d bytes; at most %d are allowed: put large inputs into files", len(job.Spec), jobspec.MaxBytes)
	}
	// The fingerprint of the original request: a changed default does not make it another request.
	job.Fingerprint = jobspec.Fingerprint(job.Spec)
	if full := withDefaults(req); full != req {
		if job.Spec, err = jobspec.Encode(full); err != nil {
			return job, call.Bad("request", "not encodable: %v", err)
		}
	}
	return job, nil
}

// withDefaults sets the published defaults of unset fields, so that neither the code that shows the job nor the code that
// runs it must know them.
func withDefaults(req *v1.SubmitJobRequest) *v1.SubmitJobRequest {
	distributed := req.GetTrainingConfig().GetFramework().GetDistributed()
	steps := req.GetDataConfig() != nil && req.GetDataConfig().GetGradientAccumulationSteps() == 0
	backend := distributed != nil && distributed.GetBackend() == ""
	if !steps && !backend {
		return req
	}
	full := proto.CloneOf(req)
	if steps {
		full.DataConfig.GradientAccumulationSteps = 1
	}
	if backend {
		full.TrainingConfig.Framework.Distributed.Backend = "nccl"
	}
	return full
}

// Limits of a request.
const (
	MaxName     = 256
	maxLabels   = 64
	maxLabelKey = 128
	maxLabelVal = 256
	maxEnv      = 1024
	maxEnvBytes = 128 << 10
	maxArgs     = 4096
	maxGPUCount = 65_536
	maxNodes    = 4096
	maxSeconds  = 10 * 365 * 86_400
)

func checkWhatRuns(req *v1.SubmitJobRequest) error {
	command, training := req.GetCommandConfig(), req.GetTrainingConfig()
	switch {
	case req.GetEvaluationConfig() != nil && (command != nil || training != nil || req.GetDataConfig() != nil):
		return call.Bad("evaluation_config", "cannot be combined with training_config, data_config and command_config")
	case req.GetEvaluationConfig() != nil:
		return CheckEvaluation(req.GetEvaluationConfig())
	case command == nil && training == nil:
		return call.Bad("command_config", "say what runs: give command_config (argv and cwd), or training_config with data_config")
	case command != nil && training != nil:
		return call.Bad("command_config", "give command_config or training_config, not both")
	case command != nil:
		if req.GetDataConfig() != nil {
			return call.Bad("data_config", "needs training_config; a command finds its data itself")
		}
		return checkCommand(command)
	default:
		return checkTraining(req)
	}
}

// uploadID is the form of the id of an upload.
var uploadID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkCommand(c *v1.CommandConfig) error {
	var f call.Faults
	switch {
	case len(c.GetArgv()) == 0 && c.GetCommand() == "":
		f.Bad("command_config.argv", "is empty: give the program and its arguments, or a shell line in command_config.command")
	case len(c.GetArgv()) > 0 && c.GetCommand() != "":
		f.Bad("command_config.argv", "give argv or command, not both")
	case len(c.GetArgv()) > 0 && c.GetArgv()[0] == "":
		f.Bad("command_config.argv", "the first element is the program and must not be empty")
	case len(c.GetArgv()) > maxArgs:
		f.Bad("command_config.argv", "has %d elements; at most %d are allowed", len(c.GetArgv()), maxArgs)
	}
	switch uploaded := c.GetUpload() != ""; {
	case c.GetCwd() == "" && !uploaded:
		f.Bad("command_config.cwd", "is required: the directory on the node in which the command runs")
	case uploaded && c.GetCwd() != "" && !path.IsAbs(c.GetCwd()) && !filepath.IsLocal(c.GetCwd()):
		f.Bad("command_config.cwd", "%q leads out of the upload: give a directory of it, or an absolute path on the node", c.GetCwd())
	case !uploaded && !path.IsAbs(c.GetCwd()):
		f.Bad("command_config.cwd", "%q must be an absolute path", c.GetCwd())
	}
	if c.GetUpload() != "" && !uploadID.MatchString(c.GetUpload()) {
		f.Bad("command_config.upload", "%.100q is no upload: POST /uploads answers with its id, sha256: and 64 hexadecimal digits", c.GetUpload())
	}
	if strings.ContainsRune(c.GetCwd()+c.GetCommand()+strings.Join(c.GetArgv(), ""), 0) {
		f.Bad("command_config", "must not contain a NUL character")
	}
	checkEnvironment(&f, "command_config.environment", c.GetEnvironment())
	checkMounts(&f, "command_config.mounts", c.GetMounts())
	return f.Err()
}

func checkTraining(req *v1.SubmitJobRequest) error {
	var f call.Faults
	t, data := req.GetTrainingConfig(), req.GetDataConfig()
	if t.GetBaseModel().GetModelId() == "" {
		f.Bad("training_config.base_model.model_id", "is required: the model to train")
	}
	switch {
	case t.GetTrainingType() == v1.TrainingType_UNSPECIFIED:
		f.Bad("training_config.training_type", "is required: one of SFT, LORA, QLORA, DPO, RLHF, CONTINUED_PRETRAIN, FULL_FINETUNE")
	case v1.TrainingType_Value_name[int32(t.GetTrainingType())] == "":
		f.Bad("training_config.training_type", "%d is not a training type", t.GetTrainingType())
	}
	sources := data.GetSources()
	switch {
	case len(sources) == 0:
		f.Bad("data_config.sources", "is empty: give at least one data source")
	case len(sources) > maxSources:
		f.Bad("data_config.sources", "has %d entries; at most %d are allowed: give the directory that contains them", len(sources), maxSources)
		sources = nil
	}
	f.Add(checkModel(t.GetBaseModel()))
	checkFramework(&f, t)
	for i, source := range sources {
		f.Add(CheckSource(fmt.Sprintf("data_config.sources[%d].path", i), source.GetPath()))
	}
	for _, n := range []struct {
		field string
		value int32
	}{
		{"max_seq_length", data.GetMaxSeqLength()},
		{"batch_size", data.GetBatchSize()},
		{"gradient_accumulation_steps", data.GetGradientAccumulationSteps()},
		{"num_workers", data.GetNumWorkers()},
	} {
		if n.value < 0 {
			f.Bad("data_config."+n.field, "%d must not be negative", n.value)
		}
	}
	if split := data.GetValidationSplit(); !(split >= 0 && split <= 1) {
		f.Bad("data_config.validation_split", "%v must be between 0 and 1", split)
	}
	checkEnvironment(&f, "training_config.environment", t.GetEnvironment())
	checkMounts(&f, "training_config.mounts", t.GetMounts())
	return f.Err()
}

func nameOf(f *call.Faults, req *v1.SubmitJobRequest) string {
	name := strings.TrimSpace(req.GetName())
	if name == "" {
		c := req.GetCommandConfig()
		if c == nil {
			f.Bad("name", "is required: a label for people")
			return ""
		}
		if len(c.GetArgv()) > 0 {
			name = path.Base(c.GetArgv()[0])
		} else {
			name = "command"
		}
	}
	if len(name) > MaxName {
		f.Bad("name", "has %d bytes; at most %d are allowed", len(name), MaxName)
	}
	call.Plain(f, "name", name)
	return name
}

func checkEnvironment(f *call.Faults, field string, env map[string]string) {
	if len(env) > maxEnv {
		f.Bad(field, "has %d variables; at most %d are allowed", len(env), maxEnv)
		return
	}
	total := 0
	for _, key := range slices.Sorted(maps.Keys(env)) {
		total += len(key) + len(env[key]) + 2
		if key == "" || strings.ContainsAny(key, "=\x00") {
			f.Bad(field, "%q is not a valid name of a variable", key)
		}
		if strings.ContainsRune(env[key], 0) {
			f.Bad(field, "the value of %s contains a NUL character", key)
		}
	}
	if total > maxEnvBytes {
		f.Bad(field, "has %d bytes; at most %d are allowed", total, maxEnvBytes)
	}
}

func checkLabels(f *call.Faults, field string, labels map[string]string) {
	if len(labels) > maxLabels {
		f.Bad(field, "has %d entries; at most %d are allowed", len(labels), maxLabels)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key == "" || len(key) > maxLabelKey || strings.ContainsAny(key, "=,\x00") {
			f.Bad(field, "%q is not a valid name of a label: 1 to %d bytes, without '=' and ','", key, maxLabelKey)
		}
		if len(labels[key]) > maxLabelVal {
			f.Bad(field, "the value of %s is longer than %d bytes", key, maxLabelVal)
		}
	}
}

func checkOutput(f *call.Faults, o *v1.OutputConfig) {
	if o.GetOutputDir() != "" && !path.IsAbs(o.GetOutputDir()) {
		f.Bad("output_config.output_dir", "%q must be an absolute path", o.GetOutputDir())
	}
	if o.GetCheckpointIntervalSteps() < 0 {
		f.Bad("output_config.checkpoint_interval_steps", "must not be negative")
	}
	if o.GetKeepCheckpoints() < 0 {
		f.Bad("output_config.keep_checkpoints", "must not be negative; 0 keeps all")
	}
	name := strings.TrimPrefix(o.GetKeepBestMetric(), "+")
	switch {
	case o.GetKeepBest() < 0:
		f.Bad("output_config.keep_best", "must not be negative")
	case o.GetKeepBest() > 0 && o.GetKeepCheckpoints() == 0:
		f.Bad("output_config.keep_best", "needs keep_checkpoints: without it all checkpoints are kept")
	case o.GetKeepBest() > 0 && name == "":
		f.Bad("output_config.keep_best_metric", "name the metric that keep_best goes by, such as \"eval_loss\", or \"+accuracy\" if the greatest is the best")
	case o.GetKeepBest() == 0 && o.GetKeepBestMetric() != "":
		f.Bad("output_config.keep_best_metric", "has an effect with keep_best only: say how many to keep, or omit it")
	case len(name) > checkpoints.MaxMetricName:
		f.Bad("output_config.keep_best_metric", "has %d bytes; at most %d are allowed", len(name), checkpoints.MaxMetricName)
	}
	if !slices.Contains(exports, o.GetExport()) {
		f.Bad("output_config.export", "%q is not one of %s", o.GetExport(), strings.Join(exports[1:], ", "))
	}
}

// exports are the forms in which a training can export its model; empty is the default.
var exports = []string{"", "safetensors", "adapter", "sharded", "none"}

// retentionOf reads which checkpoints of a job are kept.
func retentionOf(o *v1.OutputConfig) checkpoints.Retention {
	return checkpoints.Retention{
		Keep: uint32(max(0, o.GetKeepCheckpoints())), Best: uint32(max(0, o.GetKeepBest())), Metric: o.GetKeepBestMetric(),
	}
}
