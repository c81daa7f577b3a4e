package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim/probe"
	"github.com/mindcoordinator/mind/api/launcher"
)

// lacking finds out why a node cannot launch a training.
type lacking struct {
	node, framework string
	env             *environment
}

func (l lacking) says(format string, args ...any) string {
	return "node " + l.node + ": " + fmt.Sprintf(format, args...)
}

// noScript explains why the script of a job cannot be used. The interpreter would fail, too, but then the job itself
// would count as failed.
func (l lacking) noScript(script string) string {
	info, err := os.Stat(script)
	switch {
	case script == "":
		return l.says("the launcher of %s runs a script, and the job has no custom_script_path", l.framework)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("node %s has no %s (custom_script_path): put it there, or where every node has it (a shared file system)", l.node, script)
	case err != nil:
		return l.says("custom_script_path %s cannot be read: %v", script, err)
	case info.IsDir():
		return l.says("custom_script_path %s is a directory", script)
	}
	return ""
}

// missing returns why the program of a command line is missing on this node, or "" if none is known to be.
func (l lacking) missing(argv []string) string {
	if len(argv) == 0 || argv[0] == "" {
		return l.says("the launcher of %s comes to an empty command line", l.framework)
	}
	if _, found := l.find(argv[0]); !found {
		return fmt.Sprintf("node %s has no %s (PATH=%s): install it there, or change the launcher of %s (mind launchers show %s)",
			l.node, argv[0], l.env.values["PATH"], l.framework, l.framework)
	}
	return ""
}

// probe returns the program that looks for the Python modules of a command line, and what each of its faults means; nothing
// if none can be looked for. The job has chosen the Python, so only the shim may run it, as it runs the command. Other errors of
// Python are no faults: the command will have them, too.
func (l lacking) probe(argv []string) (argvOfProbe, lacks []string) {
	wanted := modules(argv)
	if len(wanted) == 0 {
		return nil, nil
	}
	interpreter, _ := l.find(argv[0])
	if !pythonName.MatchString(filepath.Base(interpreter)) {
		interpreter = l.interpreterOf(interpreter)
	}
	if !filepath.IsAbs(interpreter) {
		return nil, nil
	}
	for _, module := range wanted {
		what := ""
		if module == launcher.Runner {
			what = ", the runner of trainings and evaluations"
		}
		lacks = append(lacks, fmt.Sprintf("node %s has no Python module %s%s: install it for the python3 of the job, or change the launcher of %s (mind launchers show %s)",
			l.node, module, what, l.framework, l.framework))
	}
	search := fmt.Sprintf("import importlib.util, sys; sys.exit(next((%d + i for i, m in enumerate(sys.argv[1:]) if importlib.util.find_spec(m) is None), 0))", probe.Found)
	return append([]string{interpreter, "-c", search}, wanted...), lacks
}

// find looks for a program in the PATH of the task. The shim reports a file that cannot be executed.
func (l lacking) find(name string) (string, bool) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			return name, true // The path is relative to the task's directory, which does not exist yet: the shim reports it if it is missing.
		}
		_, err := os.Stat(name)
		return name, !errors.Is(err, os.ErrNotExist)
	}
	for dir := range strings.SplitSeq(l.env.values["PATH"], ":") {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, true
		}
	}
	return "", false
}

var (
	pythonName = regexp.MustCompile(`^python[0-9.]*$`)
	moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// modules returns the Python modules that a command line runs: the argument of python's or torchrun's -m, and Mind's
// runner anywhere in it.
func modules(argv []string) []string {
	program := filepath.Base(argv[0])
	if !pythonName.MatchString(program) && program != "torchrun" {
		return nil
	}
	var found []string
	for i, arg := range argv[1:] {
		if !strings.HasPrefix(arg, "-") {
			break
		}
		if next := i + 2; (arg == "-m" || arg == "--module") && next < len(argv) && moduleName.MatchString(argv[next]) {
			top, _, _ := strings.Cut(argv[next], ".")
			found = append(found, top)
			break
		}
	}
	if len(found) > 0 && slices.Contains(argv, launcher.Runner) && found[0] != launcher.Runner {
		found = append(found, launcher.Runner)
	}
	return found
}

// interpreterOf returns the Python in the first line of a script, or "" if there is none.
func (l lacking) interpreterOf(script string) string {
	// To open a FIFO would wait for a process that writes to it, and a device may act when it is opened.
	place, err := unix.Open(script, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(place)
	var stat unix.Stat_t
	if unix.Fstat(place, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return ""
	}
	file, err := os.Open("/proc/self/fd/" + strconv.Itoa(place))
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 256)
	n, _ := file.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	interpreter, _ := strings.CutPrefix(line, "#!")
	words := strings.Fields(interpreter)
	if len(words) == 2 && filepath.Base(words[0]) == "env" {
		words = words[1:]
	}
	if !strings.HasPrefix(line, "#!") || len(words) == 0 || !pythonName.MatchString(filepath.Base(words[0])) {
		return ""
	}
	path, _ := l.find(words[0])
	return path
}
