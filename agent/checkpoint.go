package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxCheckpointFiles bounds the files of a checkpoint that are looked at.
const maxCheckpointFiles = 100_000

// checkpointDir finds the checkpoints that a task completes.
type checkpointDir struct {
	taskDir, dir string
	moves        *moves
	// before is what earlier attempts left, by name.
	before map[string]string
	// known are paths with the digests that were found.
	known map[string]string
	at    time.Time // of the directory, when it was last listed
	calm  bool      // nothing waits for a second look

	loaded bool
}

func newCheckpointDir(taskDir, dir string) checkpointDir {
	return checkpointDir{taskDir: taskDir, dir: dir, known: make(map[string]string)}
}

// load reads what was there before. The shim writes it before it starts the
// command.
func (c *checkpointDir) load() {
	if c.loaded {
		return
	}
	c.loaded = true
	if data, err := os.ReadFile(filepath.Join(c.taskDir, shim.BaselineFile)); err == nil {
		_ = json.Unmarshal(data, &c.before)
	}
	// Agents of earlier versions kept those that were acknowledged here.
	if data, err := os.ReadFile(filepath.Join(c.taskDir, registeredFile)); err == nil {
		for line := range strings.Lines(string(data)) {
			if digest, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
				c.known[path] = digest
			}
		}
	}
}

// unfinished are names that a checkpoint has while it is being written.
func unfinished(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") || strings.HasPrefix(name, "tmp-")
}

// scan looks for directories that appeared and are complete: those that were renamed into place. One that is written in
// place may look at rest while half of it is missing, so it counts only once the program has ended well, or when the program
// says so (event). done: the program has ended well.
func (c *checkpointDir) scan(done bool) []finding {
	if c.dir == "" {
		return nil
	}
	info, err := os.Stat(c.dir)
	if err != nil {
		return nil
	}
	if info.ModTime().Equal(c.at) && c.calm && !done {
		return nil
	}
	c.at, c.calm = info.ModTime(), true
	// A change within the clock's granularity of the listing may not be seen
	// in the time of the directory: look again while it is young.
	if time.Since(c.at) < time.Second {
		c.calm = false
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil
	}
	var found []finding
	infos := byAge(entries)
	newest := c.newestKnown(infos)
	for _, info := range infos {
		if !info.IsDir() || unfinished(info.Name()) || !utf8.ValidString(info.Name()) || c.before[info.Name()] == shim.Identity(info) {
			continue
		}
		path := filepath.Join(c.dir, info.Name())
		if _, ok := c.known[path]; ok {
			continue
		}
		if !c.moves.into(c.dir, info.Name()) && !renamed(path, info) && (!done || info.ModTime().Before(newest)) {
			// At the end, too, what was missed for good is left out: it would be told after newer ones, and count as the newest.
			continue
		}
		digest, size, err := manifest(path)
		if err != nil || size == 0 {
			c.calm = false
			continue
		}
		found = append(found, c.found(path, digest, size, stepOf(info.Name()), nil))
	}
	return found
}

// newestKnown is when the newest of the checkpoints that were told already was last changed.
func (c *checkpointDir) newestKnown(infos []fs.FileInfo) (newest time.Time) {
	for _, info := range infos {
		if _, ok := c.known[filepath.Join(c.dir, info.Name())]; ok && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest
}

// byAge sorts what a directory holds by the time of its last change. Several checkpoints are found at once after a time
// without an agent; the one that is told last counts as the newest, and a listing has them in the order of their names.
func byAge(entries []fs.DirEntry) []fs.FileInfo {
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			infos = append(infos, info)
		}
	}
	slices.SortStableFunc(infos, func(a, b fs.FileInfo) int {
		if c := a.ModTime().Compare(b.ModTime()); c != 0 {
			return c
		}
		return int(stepOf(a.Name()) - stepOf(b.Name()))
	})
	return infos
}

// renamed tells by its times that a directory was given its name after all in it was written: a rename changes the time of
// the directory's inode and of nothing in it. It serves where the agent was not there to be told of the rename.
func renamed(path string, info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	at := time.Unix(stat.Ctim.Unix())
	if !at.After(info.ModTime()) {
		return false
	}
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && !at.After(info.ModTime()) {
			err = errors.New("written later")
		}
		return err
	})
	return err == nil
}

// event is a checkpoint that the program itself told of.
func (c *checkpointDir) event(path string, step int64, metrics []byte) (finding, bool) {
	path = filepath.Clean(path)
	digest, size, err := manifest(path)
	if err != nil {
		return finding{}, false
	}
	if c.known[path] == digest {
		return finding{}, false
	}
	if step == 0 {
		step = stepOf(filepath.Base(path))
	}
	return c.found(path, digest, size, step, metrics), true
}

func (c *checkpointDir) found(path, digest string, size, step int64, metrics []byte) finding {
	c.known[path] = digest
	return finding{
		kept: true,
		body: &v1.Report{Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{
			Path: path, Step: step, ManifestDigest: digest, SizeBytes: size, MetricsJson: string(metrics),
		}}},
	}
}

// manifest describes what a checkpoint consists of: the SHA-256 of the sorted
// relative names and sizes of its files, and the sum of the sizes.
func manifest(path string) (digest string, size int64, err error) {
	type file struct {
		name string
		size int64
	}
	var files []file
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return nil
		}
		info, err := os.Stat(name) // a link counts as what it points to
		if err != nil {
			return err
		}
		if len(files) == maxCheckpointFiles {
			return fmt.Errorf("checkpoint %s has more than %d files", path, maxCheckpointFiles)
		}
		relative, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		files = append(files, file{filepath.ToSlash(relative), info.Size()})
		return nil
	})
	if err != nil {
		return "", 0, err
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %d\n", f.name, f.size)
		size += f.size
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}

// stepOf reads the number at the end of a name such as checkpoint-200.
func stepOf(name string) int64 {
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	step, _ := strconv.ParseInt(name[digits:], 10, 64)
	return step
}
