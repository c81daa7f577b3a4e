package launch

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// denied returns the reason why a task may not use the directories that its request names, or "" if it may. Files in
// private directories belong to the agent or to other jobs, and the agent would register and serve them for this job.
func (l *Launcher) denied(id taskid.ID, dir string, spec *v1.TaskSpec, s shim.Spec) string {
	if l.Private == nil {
		return ""
	}
	if cwd := s.Cwd; cwd != "" {
		if real, err := private.Resolve(cwd); err != nil || l.Private.Holds(real, resolved(append(slices.Clone(s.Dirs), filepath.Join(dir, inputs.UploadDir)))...) {
			return l.deny(id, "working directory", cwd, "submit with a cwd of your own")
		}
	}
	if spec.GetJob().GetOutputConfig().GetOutputDir() == "" {
		return ""
	}
	tenant := resolved([]string{l.Outputs.Tenant(spec.GetTenantId())})
	for _, dir := range s.Dirs {
		if real, err := private.Resolve(dir); err != nil || l.Private.Holds(real, tenant...) {
			return l.deny(id, "output directory", dir, "submit with an output_dir of your own, or without one")
		}
	}
	return ""
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
