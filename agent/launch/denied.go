package launch

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/shim/program"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// granted returns the directories of a task, absolute and without links, or the reason why it may not use those that its request
// names. Files in private directories belong to the agent or to other jobs, and the agent would register and serve them for this job.
func (l *Launcher) granted(id taskid.ID, dir string, spec *v1.TaskSpec, s shim.Spec) (dirs []string, refusal string) {
	if l.Private == nil {
		return absolute(s.Dirs), ""
	}
	if cwd := s.Cwd; cwd != "" {
		looker := s
		if safedir.Within(cwd, dir) {
			looker.User = confine.User{} // the user cannot enter the directory of the task yet
		}
		// One that cannot be resolved is reported by the shim, which sees what the task sees.
		real, why := l.resolveAs(&looker, "working directory", cwd)
		if why == "" && l.Private.Holds(real, resolved(append(slices.Clone(s.Dirs), filepath.Join(dir, inputs.UploadDir)))...) {
			return nil, l.deny(id, "working directory", cwd, "submit with a cwd of your own")
		}
	}
	if spec.GetJob().GetOutputConfig().GetOutputDir() == "" {
		return absolute(s.Dirs), ""
	}
	tenant := resolved([]string{l.Outputs.Tenant(spec.GetTenantId())})
	for _, dir := range s.Dirs {
		real, why := l.resolveAs(&s, "output directory", dir)
		own := slices.ContainsFunc(tenant, func(own string) bool { return safedir.Within(real, own) })
		switch {
		case why != "":
			return nil, why
		case strays(dir, real) || l.Private.Reaches(real, tenant...):
			return nil, l.deny(id, "output directory", dir, "submit with an output_dir of your own, or without one")
		case !own && !l.Isolation.Works(real):
			return nil, fmt.Sprintf("jobs do not write to output directory %s on node %s: submit with an output_dir where they work, or without one", dir, l.Node)
		}
		if filepath.IsAbs(real) {
			dirs = append(dirs, real)
		}
	}
	return dirs, ""
}

// resolveAs follows the links of a path with the rights of the user of the task: why must not tell what is in directories that the
// user cannot enter.
func (l *Launcher) resolveAs(s *shim.Spec, what, path string) (real, why string) {
	why = l.asUser(s, func() string {
		var err error
		if real, err = private.Resolve(path); err != nil {
			return fmt.Sprintf("%s %s cannot be used on node %s: %s", what, path, l.Node, program.Cause(err))
		}
		return ""
	})
	return real, why
}

// strays reports whether a directory that the agent names, OUTPUT_DIR/JOB/attempt-2 for example, leads elsewhere: an earlier attempt may
// have put a link there.
func strays(dir, real string) bool {
	return filepath.Base(real) != filepath.Base(dir) || filepath.Base(filepath.Dir(real)) != filepath.Base(filepath.Dir(dir))
}

func (l *Launcher) deny(id taskid.ID, what, path, instead string) string {
	if l.Denied != nil {
		l.Denied(id.Job, what, path)
	}
	return fmt.Sprintf("%s %s lies in a directory of the agent of node %s, which keeps the files of other jobs there; %s", what, filepath.Clean(path), l.Node, instead)
}

// resolved follows the links of directories, and leaves out directories that it cannot resolve.
func resolved(dirs []string) (real []string) {
	for _, dir := range dirs {
		if at, err := private.Resolve(dir); err == nil {
			real = append(real, at)
		}
	}
	return real
}
