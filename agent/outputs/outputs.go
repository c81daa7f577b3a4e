package outputs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Folder, in the data directory, holds the outputs of jobs that set no output directory: a folder for each tenant, with
// JOB.attempt-N and JOB.checkpoints in it.
const Folder = "outputs"

// plainTenant matches the names of tenants that can be names of folders.
var plainTenant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Tenant returns the folder of a tenant's outputs.
func (o *Dirs) Tenant(tenant string) string {
	if !plainTenant.MatchString(tenant) || jobOutputs.MatchString(tenant) {
		sum := sha256.Sum256([]byte(tenant))
		tenant = "~" + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(o.base, tenant)
}

// Of returns the output directory of an attempt, and the checkpoint directory of its job, which its attempts share so
// that one can resume from the checkpoints of another.
func (o *Dirs) Of(id taskid.ID, tenant string, job *v1.SubmitJobRequest) (output, checkpoints string) {
	own := o.Tenant(tenant)
	base := job.GetOutputConfig().GetOutputDir()
	switch {
	case base == "":
		base = filepath.Join(own, taskid.Dir(id.Job))
		// Older versions had no folders for tenants: a job that was started by one continues in its old directories.
		before := filepath.Join(o.base, taskid.Dir(id.Job))
		if _, err := os.Lstat(before + checkpointsSuffix); err == nil {
			base = before
		}
		// A job gets two directories and no folder around them: most jobs leave nothing in them.
		return fmt.Sprintf("%s.attempt-%d", base, id.Attempt), base + checkpointsSuffix
	case !filepath.IsAbs(base) && filepath.IsAbs(job.GetCommandConfig().GetCwd()):
		base = filepath.Join(job.GetCommandConfig().GetCwd(), base)
	case !filepath.IsAbs(base):
		base = filepath.Join(own, filepath.Join("/", base)) // nor above it
	}
	base = filepath.Join(base, taskid.Dir(id.Job))
	return filepath.Join(base, fmt.Sprintf("attempt-%d", id.Attempt)), filepath.Join(base, "checkpoints")
}

// checkpointsSuffix is the suffix of the name of a job's checkpoint directory.
const checkpointsSuffix = ".checkpoints"

// Dirs tracks which directories in Folder are used by tasks, and removes empty ones: most jobs leave theirs empty.
type Dirs struct {
	base string // Folder

	mu    sync.Mutex
	users map[string]int
}

// New makes Dirs for the outputs in a data directory, which need not exist yet.
func New(dataDir string) *Dirs {
	return &Dirs{base: filepath.Join(dataDir, Folder), users: make(map[string]int)}
}

// Base is the directory in which all tenants have theirs.
func (o *Dirs) Base() string { return o.base }

// own returns the given directories that this agent may remove, and the directories that contain them, innermost first.
// It leaves out the folders of tenants, which are kept.
func (o *Dirs) own(dirs []string) (all []string) {
	for _, dir := range dirs {
		for at := dir; at != o.base && safedir.Within(at, o.base) && (at == dir || filepath.Dir(at) != o.base); at = filepath.Dir(at) {
			all = append(all, at)
		}
	}
	return all
}

// Use records that a task uses directories, which need not exist yet.
func (o *Dirs) Use(dirs []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, dir := range o.own(dirs) {
		o.users[dir]++
	}
}

// Leave ends the use of directories by a task. over: the task's processes are gone; then empty directories without a
// user are removed.
func (o *Dirs) Leave(dirs []string, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, dir := range o.own(dirs) {
		if o.users[dir]--; o.users[dir] > 0 {
			continue
		}
		delete(o.users, dir)
		if over {
			_ = unix.Rmdir(dir) // fails if it is not empty
		}
	}
}

// unused calls do for a directory if no task uses it. No task can start to use it meanwhile.
func (o *Dirs) unused(dir string, do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users[dir] > 0 {
		return nil
	}
	return do()
}
