package jobs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Variables that name Python environments: agents put the programs of both first in the PATH.
const (
	virtualEnv  = "VIRTUAL_ENV"
	condaPrefix = "CONDA_PREFIX"
)

// pythonPrefix returns the variable for the Python environment in a directory.
func pythonPrefix(dir string) string {
	if info, err := os.Stat(filepath.Join(dir, "conda-meta")); err == nil && info.IsDir() {
		return condaPrefix
	}
	return virtualEnv
}

// enterVenv adds the variable that names the Python environment of --venv to the environment of a job.
func (o *SubmitOptions) enterVenv(config map[string]any, getwd func() (string, error)) error {
	if o.venv == "" {
		return errors.New("--venv: give the directory of a Python environment, such as .venv")
	}
	if !filepath.IsAbs(o.venv) {
		here, err := getwd()
		if err != nil {
			return fmt.Errorf("finding the working directory (give --venv in full): %w", err)
		}
		o.venv = filepath.Join(here, o.venv)
	}
	environment, err := environmentOf(config)
	if err != nil {
		return fmt.Errorf("--venv: %w", err)
	}
	if _, given := environment["PATH"]; given {
		return errors.New("--venv: the job sets PATH itself, and so says where its programs are: give one of the two")
	}
	delete(environment, virtualEnv)
	delete(environment, condaPrefix)
	environment[pythonPrefix(o.venv)] = filepath.Clean(o.venv)
	config["environment"] = environment
	return nil
}

// switchOn adds the variable with which Python loads mindcoordinator's callbacks by itself.
func switchOn(config map[string]any) error {
	environment, err := environmentOf(config)
	if err != nil {
		return fmt.Errorf("--auto: %w", err)
	}
	environment["MIND_AUTO"] = "1"
	config["environment"] = environment
	return nil
}

// environmentOf copies the environment that a job has so far.
func environmentOf(config map[string]any) (map[string]any, error) {
	environment := map[string]any{}
	switch given := config["environment"].(type) {
	case map[string]string:
		for k, v := range given {
			environment[k] = v
		}
	case map[string]any:
		maps.Copy(environment, given)
	case nil:
	default:
		return nil, errors.New("the environment in the file is no object")
	}
	return environment, nil
}

// WarnOfVenv warns if this machine has no Python in the environment of --venv, or if the command is a program of the environment of
// this terminal, which the job does not see. Nodes may have them: so it is no fault.
func (o *SubmitOptions) WarnOfVenv(w io.Writer, argv []string) {
	if o.venv == "" {
		here := os.Getenv(virtualEnv)
		said := slices.ContainsFunc(o.env, func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return name == virtualEnv || name == condaPrefix || name == "PATH"
		})
		if here == "" || said || len(argv) == 0 || strings.Contains(argv[0], "/") {
			return
		}
		if _, err := os.Stat(filepath.Join(here, "bin", argv[0])); err == nil {
			fmt.Fprintf(w, "mind: warning: %s is that of %s here, and the job does not see this environment: add --venv %s\n", argv[0], here, here)
		}
		return
	}
	python := filepath.Join(o.venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		fmt.Fprintf(w, "mind: warning: --venv: this machine has no %s; the job needs it on its nodes\n", python)
	}
}
