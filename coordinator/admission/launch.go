package admission

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/hyperparameters"
	"github.com/mindcoordinator/mind/fsm/work"
)

// maxHyperparameters limits the hyperparameters of a job, which may become arguments of its command line.
const maxHyperparameters = 1024

// checkFramework checks the framework of a training, as far as that does not depend on a launcher.
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

// fitsLauncher returns the fields of a training that the launcher does not accept.
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
	if known := l.GetHyperparameters(); l.GetBuiltin() && runs(l) {
		for _, fault := range hyperparameters.Check(t.GetTrainingType().String(), t.GetHyperparameters()) {
			f.Bad("training_config.hyperparameters."+call.Clip(fault.Name, 64), "%s", fault.Says)
		}
		for _, fault := range hyperparameters.Together(t.GetTrainingType().String(), t.GetHyperparameters()) {
			f.Bad("training_config.hyperparameters."+fault.Name, "%s", fault.Says)
		}
		fitsFramework(&f, t.GetFramework())
	} else if len(known) > 0 {
		for _, name := range slices.Sorted(maps.Keys(t.GetHyperparameters())) {
			if !slices.Contains(known, name) {
				f.Bad("training_config.hyperparameters."+call.Clip(name, 64), "is not a hyperparameter of framework %s%s; it takes %s",
					l.GetFramework(), meant(name, known), strings.Join(known, ", "))
			}
		}
	}
	needsAdapter(&f, t, l)
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

// fitsFramework refuses frameworks that the runner would refuse. If both maps have a key, the runner takes the value of
// the second.
func fitsFramework(f *call.Faults, framework *v1.Framework) {
	config := maps.Clone(framework.GetConfig())
	field := map[string]string{"strategy": "distributed.strategy"}
	for key := range config {
		field[key] = "config." + call.Clip(key, 64)
	}
	for key, value := range framework.GetDistributed().GetConfig() {
		if config == nil {
			config = map[string]string{}
		}
		config[key], field[key] = value, "distributed.config."+call.Clip(key, 64)
	}
	for _, fault := range hyperparameters.Framework(framework.GetType().String(), framework.GetDistributed().GetStrategy(), config) {
		f.Bad("training_config.framework."+field[fault.Name], "%s", fault.Says)
	}
}

// needsAdapter refuses a MEGATRON training without the module that carries it out. The variable names a module on the
// node.
func needsAdapter(f *call.Faults, t *v1.TrainingConfig, l *v1.Launcher) {
	const variable = "MIND_MEGATRON_ADAPTER"
	framework := t.GetFramework()
	if framework.GetType() != v1.FrameworkType_MEGATRON || !l.GetBuiltin() {
		return
	}
	for _, name := range []string{
		framework.GetConfig()["adapter"], framework.GetDistributed().GetConfig()["adapter"], t.GetEnvironment()[variable], l.GetEnvironment()[variable],
	} {
		if name != "" {
			return
		}
	}
	f.Bad("training_config.framework.config.adapter", "is required: MEGATRON needs a Python module on the nodes that carries out the request; "+
		"name it here or in training_config.environment.%s, or use FSDP", variable)
}

// runs reports whether a built-in launcher of a training starts the runner's own trainers. CUSTOM starts the user's
// script; only the adapter on the node knows the parameters of MEGATRON.
func runs(l *v1.Launcher) bool {
	return l.GetFramework() != v1.FrameworkType_CUSTOM.String() && l.GetFramework() != v1.FrameworkType_MEGATRON.String()
}

// needsCUDA refuses a QLORA training that no node can run: its 4-bit weights need a real GPU. It refuses nothing while
// the cluster has no nodes.
func needsCUDA(nodes iter.Seq[*work.Node], req *v1.SubmitJobRequest, l *v1.Launcher) error {
	if req.GetTrainingConfig().GetTrainingType() != v1.TrainingType_QLORA || !l.GetBuiltin() || !runs(l) || req.GetSchedulingConfig().GetAllowPendingCapacity() {
		return nil
	}
	some := false
	for n := range nodes {
		some = true
		if slices.ContainsFunc(n.GPUs, func(g work.GPU) bool { return !g.Simulated }) {
			return nil
		}
	}
	if !some {
		return nil
	}
	return call.Bad("training_config.training_type", "QLORA needs a CUDA GPU, and no node of the cluster has one (simulated GPUs do not count): "+
		"use LORA, or set scheduling_config.allow_pending_capacity to wait for such a node")
}

// meant returns the known name that was probably intended: one that differs only in how words are joined.
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
