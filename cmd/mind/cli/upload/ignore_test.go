package upload

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write makes files in a directory. A content that begins with "-> " is a link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		at := filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, link := strings.CutPrefix(content, "-> "); link {
			require.NoError(t, os.Symlink(target, at))
			continue
		}
		require.NoError(t, os.WriteFile(at, []byte(content), 0o600))
	}
}

// run runs git in a directory without settings of the user.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

var ignored = []string{
	"# comment", "", "*.log", "!keep.log", "build/", "/top", "a/**/z", "**/cache", "docs/*.txt", "x?y", "[a-c]1", "[!a-c]2", `\#literal`, `\!bang`,
	"trail ", `space\ `, "deep/**", "!deep/kept/", "foo*bar*", "a/b", "[]]x", "sub/dir/", "[^d]3", `esc\*`, "star**star", "**", "/**/m", "n/**/", "[x", "é?", "..", "./q",
}

var paths = []string{
	"a.log", "keep.log", "p/keep.log", "p/q.log", "build", "build/x", "p/build/y", "top", "p/top", "a/z", "a/b/z", "a/b/c/z", "cache", "p/q/cache", "docs/a.txt",
	"docs/b/a.txt", "xzy", "x/y", "a1", "d1", "a2", "d2", "#literal", "!bang", "trail", "space ", "deep/a", "deep/kept/b", "foobar", "fooXbarY", "a/b/f", "p/a/b", "]x",
	"sub/dir", "p/sub/dir/f", "d3", "e3", "esc*", "escx", "starXstar", "star/star", "m", "p/m", "n/o/p", "[x", "éa", "q",
}

// The patterns mean the same as to git, one by one and together.
func TestIgnorer_isLikeGit(t *testing.T) {
	for i := range append(ignored, strings.Join(ignored, "\n")) {
		text := strings.Join(ignored, "\n")
		if i < len(ignored) {
			text = ignored[i]
		}
		if i == len(ignored) {
			text = strings.ReplaceAll(text, "\n**\n", "\n") // that one decides everything before it
		}
		dir := t.TempDir()
		git(t, dir, "init", "-q")
		write(t, dir, map[string]string{mindIgnore: text + "\n", "p/" + mindIgnore: "!q.log\nlocal\n"})
		for _, path := range paths {
			at := filepath.Join(dir, path)
			if os.MkdirAll(filepath.Dir(at), 0o755) == nil { // some are a file here and a folder there
				_ = os.WriteFile(at, nil, 0o600)
			}
		}
		want := strings.Split(strings.TrimSuffix(git(t, dir, "ls-files", "-o", "-z", "--exclude-per-directory="+mindIgnore), "\x00"), "\x00")
		got, err := walk(context.Background(), dir)
		require.NoError(t, err)
		patterns := newIgnorer(dir, mindIgnore)
		var kept []string
		for _, path := range got {
			if !patterns.leavesOut(path, false) {
				kept = append(kept, path)
			}
		}
		if len(want) == 1 && want[0] == "" {
			want = nil
		}
		wrong := func(has, lacks []string) (diff []string) {
			for _, path := range has {
				if !slices.Contains(lacks, path) {
					diff = append(diff, path)
				}
			}
			return diff
		}
		assert.Empty(t, wrong(want, kept), "%q: git keeps them", text)
		assert.Empty(t, wrong(kept, want), "%q: git leaves them out", text)
	}
}

// The list has no .git, nothing that git ignores, and nothing that .mindignore names, be it committed or not.
func TestList_inAWorkTree(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir, map[string]string{
		"train.py": "x", ".gitignore": "*.ckpt\ndata\n", "a.ckpt": "x", "data/big": "x", "forced.ckpt": "x", "notes/n": "x", "new": "x", "gone": "x",
		".mindignore": "notes/\n", "sub/s.py": "x", "sub/s.ckpt": "x", "l": "-> train.py",
	})
	git(t, dir, "add", "-f", "train.py", "forced.ckpt", "notes/n", "gone", ".gitignore")
	require.NoError(t, os.Remove(filepath.Join(dir, "gone")))
	nested := filepath.Join(dir, "nested")
	write(t, dir, map[string]string{"nested/.gitignore": "tmp\n", "nested/in": "x", "nested/tmp": "x"})
	git(t, nested, "init", "-q")
	got, err := list(t.Context(), dir)
	require.NoError(t, err)
	want := []string{".gitignore", ".mindignore", "forced.ckpt", "gone", "l", "nested/.gitignore", "nested/in", "new", "sub/s.py", "train.py"}
	require.Equal(t, want, got)
	got, err = list(t.Context(), filepath.Join(dir, "sub"))
	require.NoError(t, err)
	require.Equal(t, []string{"s.py"}, got)
	got, err = list(t.Context(), filepath.Join(dir, "data"))
	require.NoError(t, err)
	require.Equal(t, []string{"big"}, got, "a directory that git ignores as a whole was asked for")
}

func TestList_withoutGit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".gitignore": "*.ckpt\nout\n", ".mindignore": "!best.ckpt\n", "a.ckpt": "x", "best.ckpt": "x", "out/x": "x", "p/.gitignore": "local", "p/local": "x", "p/m": "x",
		"p/.git/config": "x",
	})
	t.Setenv("PATH", "")
	got, err := list(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", ".mindignore", "best.ckpt", "p/.gitignore", "p/m"}, got)
}

// If git cannot say what it ignores, nothing is sent that it may leave out.
func TestList_gitThatFails(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"train.py": "", ".env": "secret", ".git": "no link to a repository"})
	_, err := list(t.Context(), dir)
	require.ErrorContains(t, err, "that git does not ignore: fatal: ")
}

// git sets these for its hooks; they name the repository of the hook.
func TestList_whatTheEnvironmentSaysOfARepositoryDoesNotCount(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	git(t, dir, "init", "-q")
	git(t, other, "init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.bin\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	for _, name := range []string{"a.py", "w.bin"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", name), nil, 0o600))
	}
	for _, repository := range []string{filepath.Join(other, ".git"), "/nonexistent"} {
		t.Setenv("GIT_DIR", repository)
		t.Setenv("GIT_WORK_TREE", other)
		paths, err := list(t.Context(), filepath.Join(dir, "sub"))
		require.NoError(t, err)
		require.Equal(t, []string{"a.py"}, paths)
	}
}
