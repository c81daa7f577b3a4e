package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Files with patterns of what is left out.
const (
	mindIgnore = ".mindignore"
	gitIgnore  = ".gitignore"
	gitDir     = ".git"
)

// list returns the files and links of a directory that are sent, relative to it, sorted.
func list(ctx context.Context, dir string) ([]string, error) {
	paths, err := listGit(ctx, dir, "")
	if err != nil {
		return nil, err
	}
	names := []string{mindIgnore}
	if len(paths) == 0 { // no work tree, no git, or a directory that git ignores as a whole
		if paths, err = walk(ctx, dir); err != nil {
			return nil, err
		}
		names = []string{gitIgnore, mindIgnore} // the last word is that of .mindignore
	}
	patterns := newIgnorer(dir, names...)
	paths = slices.DeleteFunc(paths, func(p string) bool { return patterns.leavesOut(p, false) })
	if patterns.fault != nil {
		return nil, patterns.fault
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// listGit lists what git knows of a folder below dir and what it does not ignore; nothing: the folder is in no work tree, or git is
// not there. Any other fault is an error: without git, files would be sent that it leaves out. Repositories in the folder, such as
// submodules, are part of it.
func listGit(ctx context.Context, dir, folder string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	cmd.Dir = filepath.Join(dir, filepath.FromSlash(folder))
	cmd.Env = append(slices.DeleteFunc(os.Environ(), ofRepository), "LC_ALL=C")
	out, err := cmd.Output()
	var failed *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.As(err, &failed) && bytes.Contains(failed.Stderr, []byte("not a git repository")):
		return nil, nil
	case errors.As(err, &failed):
		return nil, fmt.Errorf("list the files of %s that git does not ignore: %s", cmd.Dir, bytes.TrimSpace(failed.Stderr))
	case err != nil:
		return nil, fmt.Errorf("list the files of %s that git does not ignore: %w", cmd.Dir, err)
	}
	var paths []string
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if len(name) == 0 {
			continue
		}
		at := path.Join(folder, string(name))
		if slices.Contains(strings.Split(at, "/"), gitDir) {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(at)))
		if err != nil || !info.IsDir() {
			paths = append(paths, at)
			continue
		}
		// A repository of its own; a submodule that was not fetched has no .git, and no files.
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(at), gitDir)); err == nil {
			below, err := listGit(ctx, dir, at)
			if err != nil {
				return nil, err
			}
			paths = append(paths, below...)
		}
	}
	return paths, nil
}

// ofRepository reports whether a variable of the environment says which repository git works with, and not the directory. git
// sets them for its hooks.
func ofRepository(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	return slices.Contains([]string{
		"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
		"GIT_IMPLICIT_WORK_TREE", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
	}, name)
}

// walk lists all files and links below a directory, except what is ignored as a whole folder.
func walk(ctx context.Context, dir string) ([]string, error) {
	patterns := newIgnorer(dir, gitIgnore, mindIgnore)
	var paths []string
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case at == dir:
			return nil
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case entry.Name() == gitDir && entry.IsDir(), entry.IsDir() && patterns.leavesOut(rel, true):
			return fs.SkipDir
		case entry.Name() != gitDir && !entry.IsDir():
			paths = append(paths, rel)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", dir, errors.Join(err, patterns.fault))
	}
	return paths, nil
}
