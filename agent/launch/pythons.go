package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/shim"
)

// pythonPrefixes are the variables that name Python environments, whose programs are in the folder bin of each. A
// virtual environment is often made within one of conda, and then comes first in the PATH.
var pythonPrefixes = []string{"CONDA_PREFIX", "VIRTUAL_ENV"}

// enterPythons puts the programs of the Python environments that variables name first in the PATH, as their activation
// does. A job cannot do this itself, because it does not know the agent's PATH. Variables of the same source (the job or
// its launcher) with a PATH already say where programs are. If the node lacks an environment, the result says so: else
// the task would run with another Python.
func (l *Launcher) enterPythons(s *shim.Spec, env *environment, launcher, job map[string]string) (refusal string) {
	if job["PATH"] != "" {
		return ""
	}
	for _, name := range pythonPrefixes {
		prefix := env.values[name]
		if !filepath.IsAbs(prefix) || launcher["PATH"] != "" && job[name] == "" {
			continue
		}
		bin := filepath.Join(prefix, "bin")
		if why := l.asUser(s, func() string { return l.missingPython(name, bin) }); why != "" {
			return why
		}
		env.set("PATH", bin+":"+env.values["PATH"])
	}
	return ""
}

// missingPython says why an environment, which a variable names, is not there.
func (l *Launcher) missingPython(name, bin string) string {
	switch info, err := os.Stat(bin); {
	case errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("node %s cannot look into %s (%s): permission denied; let the user of the job read it", l.Node, bin, name)
	case err != nil || !info.IsDir():
		return fmt.Sprintf("node %s has no %s (%s): make the environment there, or where every node has it (a shared file system)", l.Node, bin, name)
	}
	if why := brokenPython(filepath.Join(bin, "python")); why != "" {
		return fmt.Sprintf("node %s cannot start %s/python (%s): %s. Make the environment with a Python that the nodes have, at the same path", l.Node, bin, name, why)
	}
	return ""
}

// brokenPython says why the python of an environment cannot start. An environment may have none: its programs are there for
// others.
func brokenPython(path string) string {
	link, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && link.Mode()&os.ModeSymlink != 0:
		if to, err := os.Readlink(path); err == nil {
			return "it is a link to " + to + ", which the node does not have"
		}
		return "it is a link that leads nowhere"
	case err == nil && (info.IsDir() || info.Mode()&0o111 == 0):
		return "it is not a program"
	}
	return ""
}
