package launch

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/disk"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// configFile, in a task directory, has the whole request, for a training program to read.
const configFile = "config.json"

// Launcher makes the specifications of tasks. It holds the settings that all tasks of a node have in common.
type Launcher struct {
	Node string
	// Isolation is how far tasks are kept apart.
	Isolation *isolation.Isolation
	// Users are the users as which tasks run; nil: that of the agent.
	Users *isolation.Users
	// LogBytes limits the log of one task.
	LogBytes int64
	// Visible returns the value of CUDA_VISIBLE_DEVICES for GPUs.
	Visible func(gpus []int32) string
	// Places returns where GPUs are, for Isolation; nil: there is no driver.
	Places func(gpus []int32) []string
	// MemoryMB returns the memory of a GPU in MiB, 0 if it is unknown; nil: it is unknown of all.
	MemoryMB func(gpu int32) int
	Outputs  *outputs.Dirs
	// Roots are the directories that the operator has listed for data.
	Roots []string
	// Quotas bound the directories of jobs; nil: nothing does.
	Quotas *disk.Quotas
	// Private are directories in which no job may work, apart from its own.
	Private *private.Paths
	// Denied is called for each private path that a job asked for; what names the purpose, such as "working directory".
	Denied func(job, what, path string)
	Log    *slog.Logger
}

// inherited are the variables of the agent's own environment that tasks get. No other variables, which may be secrets,
// are passed on.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH",
	"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// inheritedPrefixes are families of such variables.
var inheritedPrefixes = []string{"LC_", "NCCL_", "CUDA_HOME", "CUDA_PATH"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is an ordered set of variables: a later setting replaces an earlier one.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if e.values == nil {
		e.values = make(map[string]string)
	}
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// unset removes a variable.
func (e *environment) unset(name string) {
	delete(e.values, name)
	e.names = slices.DeleteFunc(e.names, func(n string) bool { return n == name })
}

// fallback sets a variable that is not set yet.
func (e *environment) fallback(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.set(name, value)
	}
}

func (e *environment) list() []string {
	out := make([]string, 0, len(e.names))
	for _, name := range e.names {
		out = append(out, name+"="+e.values[name])
	}
	return out
}

func (e *environment) inherit(environ []string) {
	e.set("PATH", defaultPath)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(inherited, name) || slices.ContainsFunc(inheritedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			e.set(name, value)
		}
	}
}

// Inherited returns the variables of the agent's own environment that a task gets.
func Inherited() []string {
	var env environment
	env.inherit(os.Environ())
	return env.list()
}

// Spec returns the specification of a task. dir is the task's directory. If it cannot run, the specification has a
// Refusal, so that the task ends like any other.
func (l *Launcher) Spec(id taskid.ID, dir string, spec *v1.TaskSpec, data *inputs.Data) shim.Spec {
	job := spec.GetJob()
	s := shim.Spec{
		JobID: id.Job, Attempt: id.Attempt, Rank: id.Rank, Token: id.Token, Node: l.Node,
		LogBytes: l.LogBytes, SegmentBytes: min(16<<20, max(1<<20, l.LogBytes/4)),
	}
	if l.Isolation != nil {
		asked := job.GetResourceConfig()
		s.Cgroup, s.Limits = l.Isolation.Task(id.Name()), l.Isolation.Limits(int(asked.GetMemoryMb()), int(asked.GetCpuCount()))
	}
	var env environment
	env.inherit(os.Environ())
	refused := l.becomeUser(&s, &env, spec.GetTenantId())
	var byLauncher, byJob map[string]string
	output, checkpoints := l.Outputs.Of(id, spec.GetTenantId(), job)
	s.Dirs = []string{output, checkpoints}
	s.CheckpointDir = checkpoints
	if command := job.GetCommandConfig(); command != nil {
		s.Cwd = command.GetCwd()
		if upload := command.GetUpload(); upload != "" && !filepath.IsAbs(s.Cwd) {
			s.Cwd = filepath.Join(dir, inputs.UploadDir, filepath.Join("/", s.Cwd)) // nor above it
		}
		s.Argv = command.GetArgv()
		if len(s.Argv) == 0 && command.GetCommand() != "" {
			s.Argv = []string{"/bin/sh", "-c", command.GetCommand()}
		}
		byJob = command.GetEnvironment()
	}
	env.fallback("HOME", output) // a user without an entry has none
	place := l.placeOf(id, dir, spec, data, output, checkpoints)
	place.model = inputs.ModelPath(spec, dir, data)
	if job.GetCommandConfig() == nil {
		byLauncher = launcherEnv(spec, place)
		byJob = job.GetTrainingConfig().GetEnvironment()
	}
	setAll(&env, byLauncher)
	setAll(&env, byJob)
	noPython := l.enterPythons(&s, &env, byLauncher, byJob)
	if job.GetCommandConfig() == nil {
		env.set("MIND_CONFIG", place.config)
	}
	if data != nil && !data.OnlyResume() {
		env.set("MIND_DATA_DIR", filepath.Join(dir, inputs.Folder))
		env.set("MIND_DATA_MANIFEST", filepath.Join(dir, inputs.Manifest))
	}
	setTaskEnv(&env, id, spec, place)
	l.setShare(&env, spec)
	if env.unset("MIND_UPLOAD_DIR"); job.GetCommandConfig().GetUpload() != "" {
		env.set("MIND_UPLOAD_DIR", filepath.Join(dir, inputs.UploadDir))
	}
	env.set("MIND_OUTPUT_DIR", output)
	env.set("MIND_CHECKPOINT_DIR", checkpoints)
	env.set("MIND_METRICS_FILE", filepath.Join(dir, shim.MetricsFile))
	env.set("MIND_EVENTS_FILE", filepath.Join(dir, shim.EventsFile))
	s.Env = env.list()
	if job.GetCommandConfig() == nil {
		s.Refusal = l.asUser(&s, func() string { return l.setCommand(&s, spec, place, &env) })
	}
	if noPython != "" {
		s.Refusal = noPython
	}
	var granted []string
	if refused == "" {
		granted, refused = l.granted(id, dir, spec, s)
	}
	if refused != "" {
		// Nobody must make or open the directories of the task.
		s.Refusal, s.Dirs, s.CheckpointDir, s.Cwd = refused, nil, "", ""
	}
	if l.Isolation != nil && s.Refusal == "" {
		if err := l.isolate(&s, dir, l.opened(spec, data, place.resume, place.model), granted, job); err != nil {
			s.Refusal = fmt.Sprintf("cannot prepare the task on node %s: %v", l.Node, err)
		}
	}
	return s
}

// isolate gives a task its walls and namespaces. read and write are its own paths, beside its directory: absolute and without links
// when they were judged. They are not resolved again: a link that was put there since opens nothing.
func (l *Launcher) isolate(s *shim.Spec, dir string, read, write []string, job *v1.SubmitJobRequest) (err error) {
	own := isolation.Own{
		Dir: dir, Files: []string{shim.MetricsFile, shim.EventsFile, inputs.UploadDir}, Read: read, Write: write,
		MemoryMB: int(job.GetResourceConfig().GetMemoryMb()),
	}
	if own.Dir, err = private.Resolve(dir); err != nil {
		return fmt.Errorf("resolve the task directory: %w", err)
	}
	failed := s.User.As(func() {
		own.Mounts, err = l.Isolation.JobMounts(slices.Concat(job.GetCommandConfig().GetMounts(), job.GetTrainingConfig().GetMounts()))
	})
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	// The record, the log and the exit in its directory are the agent's, which believes them.
	readable, writable := append(own.Read, own.Dir), slices.Clone(own.Write)
	for _, name := range own.Files {
		writable = append(writable, filepath.Join(own.Dir, name))
	}
	for _, m := range own.Mounts {
		s.Sources = append(s.Sources, m.From)
		if m.Write {
			writable = append(writable, m.To)
		} else {
			readable = append(readable, m.To)
		}
	}
	if s.Walls, err = l.Isolation.Walls(readable, writable); err != nil {
		return err
	}
	s.Walls.Bounded = s.Walls.Scope && l.Quotas != nil
	s.Room, err = l.Isolation.Room(own)
	return err
}

// becomeUser makes a task run as the user of its tenant. It returns a reason if there is none.
func (l *Launcher) becomeUser(s *shim.Spec, env *environment, tenant string) string {
	user, err := l.Users.Of(tenant)
	switch {
	case err != nil:
		return fmt.Sprintf("cannot run on node %s: %v", l.Node, err)
	case user == nil:
		return ""
	}
	s.User, s.Own, s.Given = user.User, l.Outputs.Base(), []string{configFile, inputs.Manifest, inputs.UploadDir}
	for _, v := range [][2]string{{"HOME", user.Home}, {"USER", user.Name}, {"LOGNAME", user.Name}, {"SHELL", user.Shell}} {
		if env.unset(v[0]); v[1] != "" {
			env.set(v[0], v[1])
		}
	}
	return ""
}

// asUser looks for something that the job names with the rights of its user: why it is missing must not tell what is in other
// directories. It returns what the function returns, or why the user's rights could not be had.
func (l *Launcher) asUser(s *shim.Spec, look func() string) (why string) {
	if err := s.User.As(func() { why = look() }); err != nil {
		return fmt.Sprintf("cannot become the user of the task on node %s: %v", l.Node, err)
	}
	return why
}

// absolute returns the places to which absolute paths lead. The shim follows no links.
func absolute(paths []string) (real []string) {
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			continue
		}
		if at, err := private.Resolve(path); err == nil {
			path = at
		}
		real = append(real, path)
	}
	return real
}

func setAll(env *environment, variables map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if name != "" && !strings.ContainsAny(name, "=\x00") {
			env.set(name, strings.ReplaceAll(variables[name], "\x00", ""))
		}
	}
}

// setTaskEnv sets the variables that every task gets. It runs last: a job cannot change them.
func setTaskEnv(env *environment, id taskid.ID, spec *v1.TaskSpec, p place) {
	env.set("CUDA_VISIBLE_DEVICES", p.visible)
	// The indices are the driver's, which numbers the GPUs in the order of the bus.
	env.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
	env.set("MIND_JOB_ID", id.Job)
	if array, number, ok := strings.Cut(strings.TrimSuffix(id.Job, "]"), "["); ok {
		of := spec.GetJob().GetSchedulingConfig().GetArray()
		env.set("MIND_ARRAY_JOB_ID", array)
		env.set("MIND_ARRAY_INDEX", number)
		env.set("MIND_ARRAY_START", strconv.Itoa(int(of.GetStart())))
		env.set("MIND_ARRAY_END", strconv.Itoa(int(of.GetEnd())))
	}
	env.set("MIND_ATTEMPT", strconv.Itoa(int(id.Attempt)))
	env.set("MIND_NODE_RANK", strconv.Itoa(int(id.Rank)))
	env.set("MIND_NNODES", strconv.Itoa(p.nodes))
	env.set("MIND_GPUS_PER_NODE", strconv.Itoa(len(spec.GetGpus())))
	if f := spec.GetGpuFraction(); f > 0 && f < 1 {
		env.set("MIND_GPU_FRACTION", strconv.FormatFloat(f, 'g', 4, 64))
	}
	env.set("MASTER_ADDR", p.master)
	env.set("MASTER_PORT", strconv.Itoa(int(spec.GetMasterPort())))
	setRank(env, id, spec, p)
	setTorchrun(env, id, spec, p)
	if env.unset("MIND_RESUME_FROM"); p.resume != "" {
		env.set("MIND_RESUME_FROM", p.resume)
	}
	if env.unset("MIND_MODEL_PATH"); p.model != "" {
		env.set("MIND_MODEL_PATH", p.model)
	}
	if env.unset("MIND_GATES"); spec.GetGatesJson() != "" {
		env.set("MIND_GATES", spec.GetGatesJson())
	}
}

// setRank sets the variables of a rank if the process of a task is one: the job has several nodes, and at most one GPU
// on each. With several GPUs the process is no rank: its launcher or framework starts one process for each GPU, and a
// framework that finds the variables of a rank uses a single GPU. A single process is no rank either, because programs
// that find these variables look for other ranks. WORLD_SIZE alone is for launchers of trainings.
func setRank(env *environment, id taskid.ID, spec *v1.TaskSpec, p place) {
	job := spec.GetJob()
	ranks := p.nodes > 1 && p.perNode == 1 && job.GetEvaluationConfig() == nil
	if ranks {
		env.set("RANK", strconv.Itoa(int(id.Rank)))
		env.set("LOCAL_RANK", "0")
	}
	if ranks || job.GetCommandConfig() == nil {
		env.set("WORLD_SIZE", strconv.Itoa(p.world))
	}
}

// setTorchrun sets the variables that torchrun uses for missing flags, so that the torchruns of all nodes of an attempt
// find each other. The job's own variables and flags take precedence.
func setTorchrun(env *environment, id taskid.ID, spec *v1.TaskSpec, p place) {
	env.fallback("PET_NNODES", strconv.Itoa(p.nodes))
	env.fallback("PET_NODE_RANK", strconv.Itoa(int(id.Rank)))
	env.fallback("PET_NPROC_PER_NODE", strconv.Itoa(p.perNode))
	env.fallback("PET_MASTER_ADDR", p.master)
	env.fallback("PET_MASTER_PORT", strconv.Itoa(int(spec.GetMasterPort())))
	env.fallback("PET_RDZV_ID", p.rdzvID())
}

// Prepare returns a function that writes the files that a task's program reads. dir is the task's directory, final its
// later name.
func Prepare(spec *v1.TaskSpec, data *inputs.Data) func(dir, final string) error {
	if spec.GetJob().GetCommandConfig() != nil {
		if data == nil {
			return nil
		}
		return func(dir, _ string) error { return errors.Join(data.WriteResume(dir), data.WriteUpload(dir)) }
	}
	return func(dir, final string) error {
		if err := data.WriteResume(dir); err != nil {
			return err
		}
		if err := writeConfig(dir, spec.GetJob()); err != nil || data == nil || data.OnlyResume() {
			return err
		}
		return data.Write(dir, final)
	}
}

// writeConfig writes the whole request for a training program to read.
func writeConfig(dir string, job *v1.SubmitJobRequest) error {
	data, err := numbers.Marshal(job)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, configFile), data, 0o600); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}
