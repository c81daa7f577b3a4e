package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
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
		"CUSTOM takes any":  {func(r *v1.SubmitJobRequest) { custom(r); r.TrainingConfig.Hyperparameters = map[string]string{"x": ""} }, nil, "", ""},
		"MEGATRON and LORA": {func(r *v1.SubmitJobRequest) { r.TrainingConfig.Framework.Type = v1.FrameworkType_MEGATRON }, nil, "training_config.training_type", "not supported by framework MEGATRON"},
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
