package admission

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
)

func TestFitsLauncher(t *testing.T) {
	builtin := func(req *v1.SubmitJobRequest) *v1.Launcher {
		framework, _ := launcher.For(req)
		return launcher.Builtin(framework)
	}
	custom := func(r *v1.SubmitJobRequest) {
		r.TrainingConfig.Framework = &v1.Framework{Type: v1.FrameworkType_CUSTOM, CustomScriptPath: "/x.py"}
	}
	for name, tt := range map[string]struct {
		change      func(*v1.SubmitJobRequest)
		l           *v1.Launcher
		field, says string
	}{
		"as it is":             {func(*v1.SubmitJobRequest) {}, nil, "", ""},
		"known hyperparameter": {func(r *v1.SubmitJobRequest) { r.TrainingConfig.Hyperparameters = map[string]string{"lora_r": "8"} }, nil, "", ""},
		"unknown hyperparameter": {
			func(r *v1.SubmitJobRequest) { r.TrainingConfig.Hyperparameters = map[string]string{"LoraR": "8"} }, nil,
			"training_config.hyperparameters.LoraR", "did you mean lora_r?",
		},
		"a value of another type": {
			func(r *v1.SubmitJobRequest) {
				r.TrainingConfig.Hyperparameters = map[string]string{"learning_rate": "fast"}
			}, nil,
			"training_config.hyperparameters.learning_rate", "must be a number",
		},
		"of another training type": {
			func(r *v1.SubmitJobRequest) { r.TrainingConfig.Hyperparameters = map[string]string{"beta": "1"} }, nil,
			"training_config.hyperparameters.beta", "is a hyperparameter of DPO, RLHF, not of LORA",
		},
		"a launcher of one's own takes any": {
			func(r *v1.SubmitJobRequest) {
				r.TrainingConfig.Hyperparameters = map[string]string{"learning_rte": "fast"}
			},
			&v1.Launcher{Framework: "HF_TRAINER", Argv: []string{"x"}}, "", "",
		},
		"or those that it lists": {
			func(r *v1.SubmitJobRequest) {
				r.TrainingConfig.Hyperparameters = map[string]string{"learning_rte": "fast"}
			},
			&v1.Launcher{Framework: "HF_TRAINER", Argv: []string{"x"}, Hyperparameters: []string{"lr"}},
			"training_config.hyperparameters.learning_rte", "it takes lr",
		},
		"MEGATRON takes any": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.TrainingType, r.TrainingConfig.Framework.Type = v1.TrainingType_SFT, v1.FrameworkType_MEGATRON
			r.TrainingConfig.Framework.Config = map[string]string{"adapter": "acme_megatron"}
			r.TrainingConfig.Hyperparameters = map[string]string{"train_iters": "9"}
		}, nil, "", ""},
		"MEGATRON by a variable": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.TrainingType, r.TrainingConfig.Framework.Type = v1.TrainingType_SFT, v1.FrameworkType_MEGATRON
			r.TrainingConfig.Environment = map[string]string{"MIND_MEGATRON_ADAPTER": "acme_megatron"}
		}, nil, "", ""},
		"MEGATRON without an adapter": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.TrainingType, r.TrainingConfig.Framework.Type = v1.TrainingType_SFT, v1.FrameworkType_MEGATRON
		}, nil, "training_config.framework.config.adapter", "is required"},
		"no stage of ZeRO": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework = &v1.Framework{Type: v1.FrameworkType_DEEPSPEED, Config: map[string]string{"zero_stage": "7", "zero_optimization.overlap_comm": "true"}}
		}, nil, "training_config.framework.config.zero_stage", `is "7", and must be 0, 1, 2 or 3`},
		"no strategy of ZeRO": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework = &v1.Framework{Type: v1.FrameworkType_DEEPSPEED, Distributed: &v1.Distributed{Strategy: "zero9"}}
		}, nil, "training_config.framework.distributed.strategy", "must be one of deepspeed, zero"},
		"no key of FSDP": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework = &v1.Framework{
				Type: v1.FrameworkType_FSDP, Config: map[string]string{"fsdp_cpu_offload": "true"},
				Distributed: &v1.Distributed{Strategy: "FULL_SHARD", Config: map[string]string{"shard": "all"}},
			}
		}, nil, "training_config.framework.distributed.config.shard", "it takes activation_checkpointing"},
		"RLHF without a reward": {
			func(r *v1.SubmitJobRequest) { r.TrainingConfig.TrainingType = v1.TrainingType_RLHF }, nil,
			"training_config.hyperparameters.reward_function", "RLHF needs a reward",
		},
		"RLHF with one": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.TrainingType = v1.TrainingType_RLHF
			r.TrainingConfig.Hyperparameters = map[string]string{"reward_model": "acme/judge"}
		}, nil, "", ""},
		"both halves": {
			func(r *v1.SubmitJobRequest) {
				r.TrainingConfig.Hyperparameters = map[string]string{"bf16": "true", "fp16": "1"}
			}, nil, "training_config.hyperparameters.fp16", "give one of them",
		},
		"no steps": {
			func(r *v1.SubmitJobRequest) { r.TrainingConfig.Hyperparameters = map[string]string{"max_steps": "0"} }, nil,
			"training_config.hyperparameters.max_steps", "at least 1",
		},
		"CUSTOM takes any": {func(r *v1.SubmitJobRequest) { custom(r); r.TrainingConfig.Hyperparameters = map[string]string{"x": ""} }, nil, "", ""},
		"MEGATRON and LORA": {func(r *v1.SubmitJobRequest) {
			r.TrainingConfig.Framework = &v1.Framework{Type: v1.FrameworkType_MEGATRON, Config: map[string]string{"adapter": "a"}}
		}, nil, "training_config.training_type", "not supported by framework MEGATRON"},
		"a launcher that runs a script": {
			func(*v1.SubmitJobRequest) {}, &v1.Launcher{Framework: "HF_TRAINER", Argv: []string{"x"}, DistributedArgv: []string{"{script_command}"}},
			"training_config.framework.type", "CUSTOM",
		},
		"a brace is no placeholder": {func(*v1.SubmitJobRequest) {}, &v1.Launcher{Framework: "HF_TRAINER", Argv: []string{"x", "{{script}"}}, "", ""},
		"a command":                 {func(r *v1.SubmitJobRequest) { *r = v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{}} }, &v1.Launcher{TrainingTypes: []string{"SFT"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := trainingJob()
			tt.change(req)
			l := tt.l
			if l == nil {
				l = builtin(req)
			}
			err := fitsLauncher(req, l)
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var wrong *call.Invalid
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, tt.field, wrong.Field)
			require.Contains(t, wrong.Message, tt.says)
		})
	}
}

func TestNeedsCUDA(t *testing.T) {
	qlora := func(change func(*v1.SubmitJobRequest)) *v1.SubmitJobRequest {
		r := trainingJob()
		r.TrainingConfig.TrainingType = v1.TrainingType_QLORA
		if change != nil {
			change(r)
		}
		return r
	}
	real := &work.Node{GPUs: []work.GPU{{Simulated: true}, {}}}
	pretend := &work.Node{GPUs: []work.GPU{{Simulated: true}}}
	builtin := launcher.Builtin("HF_TRAINER")
	for name, tt := range map[string]struct {
		req   *v1.SubmitJobRequest
		nodes []*work.Node
		l     *v1.Launcher
		ok    bool
	}{
		"a real one":           {qlora(nil), []*work.Node{pretend, real}, builtin, true},
		"simulated GPUs":       {qlora(nil), []*work.Node{pretend}, builtin, false},
		"no GPUs":              {qlora(nil), []*work.Node{{}}, builtin, false},
		"no nodes yet":         {qlora(nil), nil, builtin, true},
		"LORA":                 {trainingJob(), []*work.Node{pretend}, builtin, true},
		"a program of its own": {qlora(nil), []*work.Node{pretend}, &v1.Launcher{Framework: "HF_TRAINER"}, true},
		"it may wait": {qlora(func(r *v1.SubmitJobRequest) {
			r.SchedulingConfig = &v1.SchedulingConfig{AllowPendingCapacity: true}
		}), []*work.Node{pretend}, builtin, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := needsCUDA(slices.Values(tt.nodes), tt.req, tt.l)
			if tt.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "QLORA needs a CUDA GPU, and no node of the cluster has one")
		})
	}
}
