package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every command of the pages for users works as it is pasted: page by page, in order, in one shell for each page, on a
// cluster of its own. docs/develop/testing.md has the rules.
func TestDocs_everyCommandWorksAsPasted(t *testing.T) {
	if testing.Short() {
		t.Skip("runs clusters")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	use, err := filepath.Glob("../../docs/use/*.md")
	require.NoError(t, err)
	ran := make(chan int, 100)
	t.Run("pages", func(t *testing.T) {
		for _, path := range append([]string{"../../README.md"}, use...) {
			t.Run(filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				ran <- paste(t, path)
			})
		}
	})
	close(ran)
	all := 0
	for n := range ran {
		all += n
	}
	if onePage := slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, "Pasted/") }); !onePage && !t.Failed() {
		require.Greater(t, all, 60, "so few command lines were run that the pages must have been misread")
	}
}

// paste does what the reader of a page does, and returns how many command lines it has run.
func paste(t *testing.T, path string) (ran int) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	blocks, err := pastedBlocks(string(text))
	require.NoError(t, err, path)
	clone := cloneOf(t)
	var term *terminal
	for _, b := range blocks {
		if b.file != "" {
			require.NoError(t, os.WriteFile(filepath.Join(clone, b.file), []byte(b.text), 0o600))
			continue
		}
		if why := lacking(b.needs); why != "" {
			t.Logf("%s:%d: not run: needs %s", path, b.line, why)
			continue
		}
		if term == nil {
			term = openTerminal(t, clone)
			if !slices.ContainsFunc(blocks, func(b pasted) bool { return b.stays }) {
				term.must(t, "export PATH=$PWD/bin:$PATH\n"+stay(t, clone, path, pasted{text: small}))
			}
		}
		if b.stays {
			term.must(t, stay(t, clone, path, b))
			continue
		}
		n, err := term.paste(t, path, b)
		require.NoError(t, err)
		ran += n
	}
	return ran
}

// paste runs the command lines of a block, and returns how many there were. The error says which one did not do what the
// page says.
func (term *terminal) paste(t *testing.T, path string, b pasted) (ran int, err error) {
	lines, err := b.statements()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range lines {
		began := time.Now()
		out, code, err := term.run(s)
		where := fmt.Sprintf("%s:%d: %sexit code %d\n%s", path, s.line, s.text, code, out)
		if err != nil {
			return ran, fmt.Errorf("%s%w", where, err)
		}
		if code != s.code && (!s.interrupted || code != interruptedCode) {
			return ran, fmt.Errorf("%sthe exit code should be %d", where, s.code)
		}
		ran++
		t.Logf("%.1fs %s", time.Since(began).Seconds(), where)
	}
	return ran, nil
}

func TestPasted_findsWhatDoesNotWork(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	term := openTerminal(t, t.TempDir())
	n, err := term.paste(t, "page.md", pasted{line: 5, text: "x=$(echo 7)\nexit_() { return $x; }\nexit_ # exit code 7\nfalse # refused\n(trap 'exit 0' INT; echo one; while :; do sleep 0.01; done) # Ctrl-C\n"})
	require.NoError(t, err)
	require.Equal(t, 5, n)
	n, err = term.paste(t, "page.md", pasted{line: 5, text: "true\n\necho lost >&2; exit_ # 7\n"})
	require.EqualError(t, err, "page.md:7: echo lost >&2; exit_ # 7\nexit code 7\nlost\n\nthe exit code should be 0")
	require.Equal(t, 1, n)
	_, err = term.paste(t, "page.md", pasted{line: 5, text: "true # refused\n"})
	require.ErrorContains(t, err, "the exit code should be 1")
	_, err = term.paste(t, "page.md", pasted{line: 5, text: "exit 4\n"})
	require.ErrorContains(t, err, "page.md:5: exit 4\nexit code 0\nthe shell has ended")
}

// interruptedCode is the exit code of a command that Ctrl-C ended.
const interruptedCode = 130

// small starts a cluster for a page that starts none.
const small = "exec bin/mind dev --in-process --coordinators 1 --http 127.0.0.1:0\n"

// notPrograms are needs of blocks that no program in the PATH meets, so that the test leaves those blocks out.
var notPrograms = []string{"gpu", "root", "network", "train-env", "cluster", "browser"}

// lacking returns what this machine does not have of what a block needs.
func lacking(needs []string) string {
	for _, need := range needs {
		if need == "venv" {
			if exec.Command("python3", "-c", "import venv, ensurepip").Run() != nil { // Debian has them in a package of their own
				return need
			}
			continue
		}
		if _, err := exec.LookPath(need); slices.Contains(notPrograms, need) || err != nil {
			return need
		}
	}
	return ""
}

// cloneOf makes a directory that looks like a fresh clone in which `make build` has run: the files of this one, and a
// bin of its own.
func cloneOf(t *testing.T) string {
	t.Helper()
	mind := theBinary(t)
	dir := filepath.Join(t.TempDir(), "mind")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if name := e.Name(); name != "bin" && name[0] != '.' {
			require.NoError(t, os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)))
		}
	}
	require.NoError(t, os.Symlink(mind, filepath.Join(dir, "bin", "mind")))
	return dir
}

// environmentOf is the environment of a reader with a new home, and without a cluster.
func environmentOf(t *testing.T, clone string) []string {
	t.Helper()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MIND_") || strings.HasPrefix(v, "DISPLAY=") || strings.HasPrefix(v, "WAYLAND_DISPLAY=")
	})
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // they are below the home
		value, err := exec.Command("go", "env", name).Output()
		require.NoError(t, err)
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return append(env, "HOME="+filepath.Dir(clone), "CDPATH=")
}

// prelude replaces make by a function that only asks whether a target exists: most targets take minutes, and are run
// elsewhere.
const prelude = `make() { case "$*" in bin/charlm) command make "$@" ;; *) command make -n "$@" > /dev/null ;; esac; }
`

// terminal is a shell into which command lines are pasted.
type terminal struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string
}

// mark is in the line that follows the output of a command line.
const mark = "\x01exit code "

func openTerminal(t *testing.T, clone string) *terminal {
	t.Helper()
	term := &terminal{cmd: exec.Command("bash", "--noprofile", "--norc"), lines: make(chan string, 10_000)}
	term.cmd.Dir, term.cmd.Env = clone, environmentOf(t, clone)
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := term.cmd.StdinPipe()
	require.NoError(t, err)
	out, ours, err := os.Pipe()
	require.NoError(t, err)
	term.in, term.cmd.Stdout, term.cmd.Stderr = in, ours, ours
	require.NoError(t, term.cmd.Start())
	require.NoError(t, ours.Close())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(term.lines)
		scan := bufio.NewScanner(out)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			term.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-term.cmd.Process.Pid, syscall.SIGKILL)
		_ = term.cmd.Wait()
		go func() { // the reader may still have lines that nobody waits for
			for range term.lines {
			}
		}()
		_ = out.Close()
		<-read
	})
	term.must(t, prelude)
	return term
}

// run runs a command line in the shell.
func (term *terminal) run(s statement) (out string, code int, err error) {
	if _, err := fmt.Fprintf(term.in, "{\n%s\n} < /dev/null\ncode=$?; printf '\\n%s%%d\\n' $code; (exit $code)\n", s.text, mark); err != nil {
		return "", 0, err
	}
	var b strings.Builder
	hangs := time.After(2 * time.Minute) // a guard, not a promise
	interrupt := s.interrupted
	for {
		select {
		case line, ok := <-term.lines:
			if !ok {
				return b.String(), 0, errors.New("the shell has ended")
			}
			if number, ended := strings.CutPrefix(line, mark); ended {
				code, err := strconv.Atoi(number)
				return b.String(), code, err
			}
			b.WriteString(line + "\n")
			if interrupt {
				interrupt = false
				if err := term.interrupt(); err != nil {
					return b.String(), 0, err
				}
			}
		case <-hangs:
			return b.String(), 0, errors.New("it does not end")
		}
	}
}

// interrupt does what Ctrl-C does to the command that the shell waits for.
func (term *terminal) interrupt() error {
	pid := term.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return fmt.Errorf("finding the command to interrupt: %w", err)
	}
	for _, child := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := syscall.Kill(n, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("interrupting the command: %w", err)
		}
	}
	return nil
}

func (term *terminal) must(t *testing.T, text string) {
	t.Helper()
	out, code, err := term.run(statement{text: text})
	require.NoError(t, err, out)
	require.Zero(t, code, "%s\n%s", text, out)
}

var exports = regexp.MustCompile(`(?m)^export MIND_.*$`)

// stay runs a block that starts a cluster, in a terminal of its own, and returns the lines that the cluster says to paste
// into other terminals.
func stay(t *testing.T, clone, path string, b pasted) string {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc", "-c", prelude+"set -e\n"+b.text)
	cmd.Dir, cmd.Env = clone, environmentOf(t, clone)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	messages, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	cmd.Stderr = messages
	out, ours, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = ours
	require.NoError(t, cmd.Start())
	require.NoError(t, ours.Close())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		_ = cmd.Wait()
		_ = messages.Close()
	})
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		if strings.HasPrefix(scan.Text(), "ready ") {
			break
		}
	}
	said := func() string {
		text, err := os.ReadFile(messages.Name())
		require.NoError(t, err)
		return string(text)
	}
	require.True(t, strings.HasPrefix(scan.Text(), "ready "), "%s:%d: no cluster became ready\n%s", path, b.line, said())
	var lines []string
	require.Eventually(t, func() bool {
		lines = exports.FindAllString(said(), -1)
		return len(lines) == 3
	}, time.Minute, 10*time.Millisecond)
	return strings.Join(lines, "\n")
}
