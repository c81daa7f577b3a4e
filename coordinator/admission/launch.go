package admission

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// maxHyperparameters limits those of a job; they may become arguments of its command line.
const maxHyperparameters = 1024

// checkFramework checks how a training is started, as far as that does not depend on a launcher.
func checkFramework(f *call.Faults, t *v1.TrainingConfig) {
	framework := t.GetFramework()
	script := framework.GetCustomScriptPath()
	switch {
	case framework.GetType() == v1.FrameworkType_UNSPECIFIED:
		f.Bad("training_config.framework.type", "is required: one of HF_TRAINER, DEEPSPEED, FSDP, MEGATRON, CUSTOM")
	case v1.FrameworkType_Value_name[int32(framework.GetType())] == "":
		f.Bad("training_config.framework.type", "%d is not a framework", framework.GetType())
	case framework.GetType() == v1.FrameworkType_CUSTOM && script == "":
		f.Bad("training_config.framework.custom_script_path", "is required when framework.type is CUSTOM: the script to run")
	case framework.GetType() != v1.FrameworkType_CUSTOM && script != "":
		f.Bad("training_config.framework.custom_script_path", "is allowed only with framework.type CUSTOM, not %s", framework.GetType())
	case script != "" && (!path.IsAbs(script) || strings.ContainsRune(script, 0)):
		f.Bad("training_config.framework.custom_script_path", "%q must be an absolute path that exists on every node of the job", script)
	}
	if strings.ContainsRune(t.GetBaseModel().GetModelId()+framework.GetDistributed().GetBackend()+framework.GetDistributed().GetStrategy(), 0) {
		// They may become arguments of a program.
		f.Bad("training_config", "must not contain a NUL character")
	}
	if framework.GetDistributed().GetWorldSize() < 0 {
		f.Bad("training_config.framework.distributed.world_size", "must not be negative")
	}
	if len(t.GetHyperparameters()) > maxHyperparameters {
		f.Bad("training_config.hyperparameters", "has %d entries; at most %d are allowed", len(t.GetHyperparameters()), maxHyperparameters)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(t.GetHyperparameters())) {
		if name == "" || strings.ContainsAny(name+t.GetHyperparameters()[name], "\x00") {
			f.Bad("training_config.hyperparameters", "%q is not a valid name of a hyperparameter", name)
		}
	}
}

// fitsLauncher returns which fields of a training the launcher does not accept.
func fitsLauncher(req *v1.SubmitJobRequest, l *v1.Launcher) error {
	var f call.Faults
	t := req.GetTrainingConfig()
	if t == nil {
		return nil
	}
	if l == nil {
		return call.Bad("training_config.framework.type", "%s has no launcher", t.GetFramework().GetType())
	}
	if types := l.GetTrainingTypes(); len(types) > 0 && !slices.Contains(types, t.GetTrainingType().String()) {
		f.Bad("training_config.training_type", "%s is not supported by framework %s, which takes %s",
			t.GetTrainingType(), l.GetFramework(), strings.Join(types, ", "))
	}
	if known := l.GetHyperparameters(); len(known) > 0 {
		for _, name := range slices.Sorted(maps.Keys(t.GetHyperparameters())) {
			if !slices.Contains(known, name) {
				f.Bad("training_config.hyperparameters."+call.Clip(name, 64), "is not a hyperparameter of framework %s%s; it takes %s",
					l.GetFramework(), meant(name, known), strings.Join(known, ", "))
			}
		}
	}
	if t.GetFramework().GetCustomScriptPath() == "" {
		for _, argv := range [][]string{l.GetArgv(), l.GetDistributedArgv()} {
			if launcher.Uses(argv, launcher.Script) || launcher.Uses(argv, launcher.ScriptCommand) || launcher.Uses(argv, launcher.TorchrunScript) {
				f.Bad("training_config.framework.type", "the launcher of %s runs a script, and only jobs with framework CUSTOM have one: "+
					"submit it as CUSTOM, or ask an operator to change the launcher", l.GetFramework())
				break
			}
		}
	}
	return f.Err()
}

// meant guesses the intended name: one that differs only in how words are joined.
func meant(name string, known []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	for _, k := range known {
		if plain(k) == plain(name) {
			return fmt.Sprintf(" (did you mean %s?)", k)
		}
	}
	return ""
}
