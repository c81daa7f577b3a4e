package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// errNoHistory is returned if the earlier version cannot be built.
var errNoHistory = errors.New("the repository has not got this commit: its history is cut off (git fetch --unshallow)")

// buildFrom builds mind as it was at a commit, without the job cache of its gateway.
func buildFrom(ctx context.Context, repository, commit, dir string) (string, error) {
	if err := exec.CommandContext(ctx, "git", "-C", repository, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", errNoHistory
	}
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", err
	}
	archive := exec.CommandContext(ctx, "git", "-C", repository, "archive", commit)
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", source)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return "", err
	}
	if err := errors.Join(unpack.Start(), archive.Run(), unpack.Wait()); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", commit, err)
	}
	if err := withoutSQLite(source); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "mind-"+commit)
	return binary, build(ctx, source, binary)
}

// withoutSQLite takes out the driver of SQLite, which takes as long to compile as the rest of an earlier mind. Only the job cache of
// a gateway uses it, which does without it as it does without a database: nothing in a cluster waits for it.
func withoutSQLite(source string) error {
	path := filepath.Join(source, "gateway", "jobcache", "dialect.go")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the job cache of the earlier version: %w", err)
	}
	without := bytes.Replace(text, []byte("\t_ \"modernc.org/sqlite\" // the driver \"sqlite\"\n"), nil, 1)
	if len(without) == len(text) {
		return fmt.Errorf("%s does not import SQLite as expected", path)
	}
	return os.WriteFile(path, without, 0o644)
}

func build(ctx context.Context, source, binary string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-trimpath"}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, "-o", binary, "./cmd/mind")...)
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", source, err, said)
	}
	return nil
}

// versions are two binaries; one of them at a time is installed at the path from which components are started.
type versions struct{ path, old, new string }

// install installs a version at the path from which components are started. Running processes keep their version.
func (v versions) install(binary string) error {
	next := v.path + ".next"
	in, err := os.Open(binary)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(next, v.path)
}

// configure sets a key of a component's configuration file, or removes it if value is empty.
func configure(p procs.Component, key, value string) error {
	file := ""
	for i, arg := range p.Argv {
		if arg == "--config" {
			file = p.Argv[i+1]
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the configuration of %s: %w", p.Name(), err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, key+":") {
			lines = append(lines, line)
		}
	}
	if value != "" {
		lines = append(lines, key+": "+value+"\n")
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600)
}
