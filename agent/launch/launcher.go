package launch

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// place is a task's position in its attempt, and the locations of its files.
type place struct {
	id                          taskid.ID
	config, output, checkpoints string
	// model is the model's location, or a name that the program must resolve; "" for none.
	model string
	// visible is the value of CUDA_VISIBLE_DEVICES, resume the checkpoint to resume from, "" for none.
	visible, resume string
	// master is the address of rank 0 for the other ranks.
	master                string
	nodes, perNode, world int
}

func (l *Launcher) placeOf(id taskid.ID, dir string, spec *v1.TaskSpec, data *inputs.Data, output, checkpoints string) place {
	p := place{
		id: id, config: filepath.Join(dir, configFile), output: output, checkpoints: checkpoints,
		visible: l.Visible(spec.GetGpus()), resume: resumeFrom(dir, spec, data),
		master: "127.0.0.1", nodes: max(1, len(spec.GetPeers())), perNode: max(1, len(spec.GetGpus())),
	}
	if peers := spec.GetPeers(); len(peers) > 1 && peers[0].GetHost() != "" {
		p.master = peers[0].GetHost()
	}
	p.world = p.nodes * p.perNode
	if n := spec.GetJob().GetTrainingConfig().GetFramework().GetDistributed().GetWorldSize(); n > 0 {
		p.world = int(n)
	}
	return p
}

// launcherOf returns the launcher in the task's request. Coordinators of older versions sent none and meant the
// built-in one.
func launcherOf(spec *v1.TaskSpec) (l *v1.Launcher, framework string, distributed bool) {
	framework, distributed = launcher.For(spec.GetJob())
	if l = spec.GetLauncher(); l == nil {
		l = launcher.Builtin(framework)
	}
	return l, framework, distributed
}

// launcherEnv returns the launcher's variables, which the job's variables override.
func launcherEnv(spec *v1.TaskSpec, p place) map[string]string {
	l, _, _ := launcherOf(spec)
	values := p.values(spec)
	variables := make(map[string]string, len(l.GetEnvironment()))
	for name, text := range l.GetEnvironment() {
		// setCommand reports placeholders that cannot be filled in.
		if filled, err := launcher.ExpandText(text, values); err == nil {
			variables[name] = filled
		}
	}
	return variables
}

// setCommand sets the command line of a training or an evaluation, and the probe before it. It returns why this node cannot
// run it.
func (l *Launcher) setCommand(s *shim.Spec, spec *v1.TaskSpec, p place, env *environment) (refusal string) {
	how, framework, distributed := launcherOf(spec)
	if framework == "" || how == nil {
		return fmt.Sprintf("the job has neither a command_config nor a training_config that node %s can read", l.Node)
	}
	template := how.GetArgv()
	if distributed && len(how.GetDistributedArgv()) > 0 {
		template = how.GetDistributedArgv()
	}
	node := lacking{node: l.Node, framework: framework, env: env}
	values := p.values(spec)
	for _, name := range []string{launcher.Script, launcher.ScriptCommand, launcher.TorchrunScript} {
		if launcher.Uses(template, name) {
			if refusal := node.noScript(values.Texts[launcher.Script]); refusal != "" {
				return refusal
			}
		}
	}
	for _, text := range how.GetEnvironment() {
		if _, err := launcher.ExpandText(text, values); err != nil {
			return node.says("the launcher of %s is from another version of mind: %v", framework, err)
		}
	}
	argv, err := launcher.Expand(template, values)
	if err != nil {
		return node.says("the launcher of %s is from another version of mind: %v", framework, err)
	}
	if why := node.missing(argv); why != "" {
		return why
	}
	s.Argv = argv
	s.Probe, s.Lacks = node.probe(argv)
	return ""
}

// values returns the values of a launcher's placeholders.
func (p place) values(spec *v1.TaskSpec) launcher.Values {
	training := spec.GetJob().GetTrainingConfig()
	framework, _ := launcher.For(spec.GetJob())
	distributed := training.GetFramework().GetDistributed()
	backend := distributed.GetBackend()
	if backend == "" {
		backend = "nccl"
	}
	trainingType := ""
	if training != nil {
		trainingType = training.GetTrainingType().String()
	}
	script := training.GetFramework().GetCustomScriptPath()
	var hyperparameters []string
	for _, name := range slices.Sorted(maps.Keys(training.GetHyperparameters())) {
		hyperparameters = append(hyperparameters, "--"+name+"="+training.GetHyperparameters()[name])
	}
	return launcher.Values{
		Texts: map[string]string{
			launcher.Attempt: strconv.Itoa(int(p.id.Attempt)), launcher.Backend: backend, launcher.CheckpointDir: p.checkpoints,
			launcher.Config: p.config, launcher.DeepspeedWorld: p.deepspeedWorld(), launcher.Framework: framework,
			launcher.GPUs: p.visible, launcher.JobID: p.id.Job, launcher.MasterAddr: p.master,
			launcher.MasterPort: strconv.Itoa(int(spec.GetMasterPort())), launcher.Model: p.model, launcher.NNodes: strconv.Itoa(p.nodes),
			launcher.NodeRank: strconv.Itoa(int(p.id.Rank)), launcher.NProcPerNode: strconv.Itoa(p.perNode), launcher.OutputDir: p.output,
			launcher.RdzvID: p.rdzvID(), launcher.ResumeFrom: p.resume, launcher.Script: script,
			launcher.Strategy: distributed.GetStrategy(), launcher.TrainingType: trainingType, launcher.WorldSize: strconv.Itoa(p.world),
		},
		Lists: map[string][]string{
			launcher.ScriptCommand: scriptCommand(script), launcher.TorchrunScript: torchrunScript(script), launcher.Hyperparams: hyperparameters,
		},
	}
}

// rdzvID returns the name of the attempt's rendezvous. It is the attempt's own, so that a straggler of an earlier
// attempt never joins it.
func (p place) rdzvID() string { return fmt.Sprintf("%s-%d", p.id.Job, p.id.Attempt) }

// scriptCommand returns the command line of a script with its interpreter, so the script need not be executable.
func scriptCommand(script string) []string {
	switch {
	case strings.HasSuffix(script, ".py"):
		return []string{"python3", script}
	case strings.HasSuffix(script, ".sh"):
		return []string{"/bin/sh", script}
	}
	return []string{script}
}

// torchrunScript returns the arguments of torchrun for a script. torchrun runs Python scripts with its own interpreter.
func torchrunScript(script string) []string {
	if strings.HasSuffix(script, ".py") {
		return []string{script}
	}
	return append([]string{"--no_python"}, scriptCommand(script)...)
}

// deepspeedWorld returns the world_info of deepspeed: the GPUs of each node, in the order of the ranks. This node does
// not know which GPUs are leased on other nodes; deepspeed needs only their number.
func (p place) deepspeedWorld() string {
	world := []byte{'{'}
	for rank := range p.nodes {
		if rank > 0 {
			world = append(world, ',')
		}
		gpus := make([]any, p.perNode)
		for i := range gpus {
			gpus[i] = i
		}
		if rank == int(p.id.Rank) && p.visible != "" {
			for i, id := range strings.Split(p.visible, ",") {
				if n, err := strconv.Atoi(id); err == nil && i < len(gpus) {
					gpus[i] = n
				} else if i < len(gpus) {
					gpus[i] = id
				}
			}
		}
		list, _ := json.Marshal(gpus) // numbers and strings
		world = fmt.Appendf(world, `"rank-%d":%s`, rank, list)
	}
	return base64.URLEncoding.EncodeToString(append(world, '}'))
}
