package launch

import (
	"fmt"
	"os"
	"path/filepath"
)

// pythonPrefixes are the variables that name Python environments, whose programs are in the folder bin of each. A
// virtual environment is often made within one of conda, and then comes first in the PATH.
var pythonPrefixes = []string{"CONDA_PREFIX", "VIRTUAL_ENV"}

// enterPythons puts the programs of the Python environments that variables name first in the PATH, as their activation
// does. A job cannot do this itself, because it does not know the agent's PATH. Variables of the same source (the job or
// its launcher) with a PATH already say where programs are. If the node lacks an environment, the result says so: else
// the task would run with another Python.
func (l *Launcher) enterPythons(env *environment, launcher, job map[string]string) (refusal string) {
	if job["PATH"] != "" {
		return ""
	}
	for _, name := range pythonPrefixes {
		prefix := env.values[name]
		if !filepath.IsAbs(prefix) || launcher["PATH"] != "" && job[name] == "" {
			continue
		}
		bin := filepath.Join(prefix, "bin")
		if info, err := os.Stat(bin); err != nil || !info.IsDir() {
			return fmt.Sprintf("node %s has no %s (%s): make the environment there, or where every node has it (a shared file system)", l.Node, bin, name)
		}
		env.set("PATH", bin+":"+env.values["PATH"])
	}
	return ""
}
