// Package launcher defines the language of launchers, which say how to start the processes of a framework.
//
// A launcher is an argv (and variables) with placeholders in braces. The coordinators refuse a launcher with an unknown
// placeholder; the agents fill placeholders in for each task. So both need the list of placeholders in this package, which
// also has the built-in launchers.
package launcher

import (
	"fmt"
	"slices"
	"strings"
)

// Values are the values of the placeholders for one task. A missing name is empty.
type Values struct {
	// Texts are inserted at the place of the placeholder.
	Texts map[string]string
	// Lists replace a whole argument; each element becomes an argument.
	Lists map[string][]string
}

// Placeholder is a name that may be written in braces.
type Placeholder struct {
	Name string
	// List says that it stands for any number of arguments, so it must be a whole argument.
	List bool
	Says string
}

// The names of the placeholders.
const (
	Attempt        = "attempt"
	Backend        = "backend"
	CheckpointDir  = "checkpoint_dir"
	Config         = "config"
	DeepspeedWorld = "deepspeed_world"
	Framework      = "framework"
	GPUs           = "gpus"
	Hyperparams    = "hyperparameters"
	JobID          = "job_id"
	MasterAddr     = "master_addr"
	MasterPort     = "master_port"
	Model          = "model"
	NNodes         = "nnodes"
	NodeRank       = "node_rank"
	NProcPerNode   = "nproc_per_node"
	OutputDir      = "output_dir"
	RdzvID         = "rdzv_id"
	ResumeFrom     = "resume_from"
	Script         = "script"
	ScriptCommand  = "script_command"
	Strategy       = "strategy"
	TorchrunScript = "torchrun_script"
	TrainingType   = "training_type"
	WorldSize      = "world_size"
)

// Placeholders lists all placeholders by name. docs/use/launchers.md has the same list, and a test compares them.
var Placeholders = []Placeholder{
	{Attempt, false, "number of the attempt"},
	{Backend, false, "framework.distributed.backend; nccl when it is not given"},
	{CheckpointDir, false, "where checkpoints of the job are"},
	{Config, false, "path of the file with the whole request, $MIND_CONFIG"},
	{DeepspeedWorld, false, "nodes and GPUs in the format of deepspeed.launcher.launch --world_info"},
	{Framework, false, "HF_TRAINER, DEEPSPEED, FSDP, MEGATRON, CUSTOM or EVALUATION"},
	{GPUs, false, "the leased GPUs, as in CUDA_VISIBLE_DEVICES"},
	{Hyperparams, true, "training_config.hyperparameters as --name=value, by name"},
	{JobID, false, "id of the job"},
	{MasterAddr, false, "address of rank 0 for the other ranks"},
	{MasterPort, false, "port of the rendezvous, the same for all ranks of an attempt"},
	{Model, false, "the model, $MIND_MODEL_PATH: its path on the node, or base_model.model_id when the program resolves it"},
	{NNodes, false, "nodes of the job"},
	{NodeRank, false, "rank of this node, from 0"},
	{NProcPerNode, false, "processes on each node: one for each of its GPUs, at least one"},
	{OutputDir, false, "where the attempt writes"},
	{RdzvID, false, "name of the rendezvous, different for each attempt"},
	{ResumeFrom, false, "path of the checkpoint to resume from; empty for a new start"},
	{Script, false, "framework.custom_script_path"},
	{ScriptCommand, true, "the script with its interpreter: python3 for .py, /bin/sh for .sh, none otherwise"},
	{Strategy, false, "framework.distributed.strategy"},
	{TorchrunScript, true, "the script as torchrun expects it: with --no-python if it is not .py"},
	{TrainingType, false, "training_config.training_type"},
	{WorldSize, false, "processes of all nodes together"},
}

func placeholder(name string) (Placeholder, bool) {
	i, ok := slices.BinarySearchFunc(Placeholders, name, func(p Placeholder, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return Placeholder{}, false
	}
	return Placeholders[i], true
}

// Expand fills in an argv.
func Expand(argv []string, values Values) ([]string, error) {
	out := make([]string, 0, len(argv))
	for _, arg := range argv {
		if name, alone := alone(arg); alone {
			if p, ok := placeholder(name); ok && p.List {
				out = append(out, values.Lists[name]...)
				continue
			}
		}
		text, err := ExpandText(arg, values)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// ExpandText fills in one text. A list placeholder is not allowed in it.
func ExpandText(text string, values Values) (string, error) {
	var b strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if strings.HasPrefix(after, "{") { // "{{" stands for a brace
			b.WriteByte('{')
			rest = after[1:]
			continue
		}
		name, next, closed := strings.Cut(after, "}")
		p, known := placeholder(name)
		switch {
		case !closed:
			return "", fmt.Errorf(`%q has an unclosed brace; write a literal brace as "{{"`, text)
		case !known:
			return "", fmt.Errorf(`%q: there is no placeholder {%s}; there are %s, and a literal brace is written "{{"`, text, name, names())
		case p.List:
			return "", fmt.Errorf("%q: {%s} stands for several arguments, so it must be a whole argument", text, name)
		}
		b.WriteString(values.Texts[name])
		rest = next
	}
}

// alone reports whether an argument is one placeholder and nothing else.
func alone(arg string) (string, bool) {
	if len(arg) < 3 || arg[0] != '{' || arg[len(arg)-1] != '}' {
		return "", false
	}
	name := arg[1 : len(arg)-1]
	return name, !strings.ContainsAny(name, "{}")
}

// Uses reports whether an argv contains a placeholder.
func Uses(argv []string, name string) bool {
	return slices.ContainsFunc(argv, func(arg string) bool {
		return strings.Contains(strings.ReplaceAll(arg, "{{", ""), "{"+name+"}")
	})
}

func names() string {
	all := make([]string, len(Placeholders))
	for i, p := range Placeholders {
		all[i] = "{" + p.Name + "}"
	}
	return strings.Join(all, " ")
}
