package launcher

import (
	"slices"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Evaluation is the name of the launcher of evaluations. The other launchers have the names of FrameworkType.
const Evaluation = "EVALUATION"

// Frameworks lists the frameworks with a launcher, in the order in which they are shown.
var Frameworks = []string{"HF_TRAINER", "DEEPSPEED", "FSDP", "MEGATRON", "CUSTOM", Evaluation}

// Runner is the Python module that runs trainings and evaluations without a script. Nodes need to have it.
const Runner = "mind_runner"

// Builtin returns a new copy of the built-in launcher, nil for an unknown framework.
func Builtin(framework string) *v1.Launcher {
	i := slices.IndexFunc(builtin, func(l *v1.Launcher) bool { return l.GetFramework() == framework })
	if i < 0 {
		return nil
	}
	return proto.CloneOf(builtin[i])
}

// For chooses the launcher of a job, and reports whether its distributed_argv is used. Jobs with a command have none.
func For(job *v1.SubmitJobRequest) (framework string, distributed bool) {
	training := job.GetTrainingConfig()
	switch {
	case job.GetCommandConfig() != nil:
		return "", false
	case training != nil:
		kind := training.GetFramework().GetType()
		r := job.GetResourceConfig()
		distributed = training.GetFramework().GetDistributed() != nil
		// A user's script is started once on each node, unless the user asks for more.
		if kind != v1.FrameworkType_CUSTOM {
			distributed = distributed || r.GetGpuCount() > 1 || r.GetNodeCount() > 1
		}
		return kind.String(), distributed
	case job.GetEvaluationConfig() != nil:
		return Evaluation, false
	}
	return "", false
}

// torchrun returns a command of torchrun with the static rendezvous, because Mind chooses rank 0. Processes of another
// attempt cannot join, because the rendezvous is stored under the name of the attempt.
func torchrun(what ...string) []string {
	return append([]string{
		"torchrun", "--nnodes={nnodes}", "--nproc_per_node={nproc_per_node}", "--node_rank={node_rank}",
		"--master_addr={master_addr}", "--master_port={master_port}", "--rdzv_id={rdzv_id}", "--max_restarts=0",
	}, what...)
}

// deepspeed returns a command of the part of the deepspeed launcher that runs on each node. The deepspeed command
// itself needs ssh to all nodes and chooses the GPUs. Mind's agents start this part on each node with the leased GPUs
// instead.
func deepspeed(what ...string) []string {
	return append([]string{
		"python3", "-m", "deepspeed.launcher.launch", "--world_info={deepspeed_world}", "--node_rank={node_rank}",
		"--master_addr={master_addr}", "--master_port={master_port}", "--no_local_rank",
	}, what...)
}

// builtin has no hyperparameters: those depend on the training type, and package hyperparameters of the coordinator has
// them.
var builtin = []*v1.Launcher{
	{Framework: "HF_TRAINER", Builtin: true, Argv: torchrun("-m", Runner, "train", "--config", "{config}")},
	{Framework: "DEEPSPEED", Builtin: true, Argv: deepspeed("--module", Runner, "train", "--config", "{config}")},
	{Framework: "FSDP", Builtin: true, Argv: torchrun("-m", Runner, "train", "--config", "{config}")},
	{
		Framework: "MEGATRON", Builtin: true, Argv: torchrun("-m", Runner, "train", "--config", "{config}"),
		TrainingTypes: []string{"SFT", "CONTINUED_PRETRAIN", "FULL_FINETUNE"},
	},
	{Framework: "CUSTOM", Builtin: true, Argv: []string{"{script_command}"}, DistributedArgv: torchrun("{torchrun_script}")},
	{Framework: Evaluation, Builtin: true, Argv: []string{"python3", "-m", Runner, "evaluate", "--config", "{config}"}},
}
