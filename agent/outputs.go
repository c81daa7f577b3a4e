package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// outputsFolder, in the data directory, holds what the jobs wrote that name no output directory: a folder for each tenant, and in
// it JOB.attempt-N and JOB.checkpoints.
const outputsFolder = "outputs"

// plainTenant are the names of tenants that can be those of folders.
var plainTenant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// outputsOf is the folder of a tenant's outputs.
func (c Config) outputsOf(tenant string) string {
	if !plainTenant.MatchString(tenant) || jobOutputs.MatchString(tenant) {
		sum := sha256.Sum256([]byte(tenant))
		tenant = "~" + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(c.DataDir, outputsFolder, tenant)
}

// outputDirs returns where the attempt writes, and where the checkpoints of
// the job are: those are shared by its attempts, so that one can go on from
// another's.
func (a *agent) outputDirs(k key, tenant string, job *v1.SubmitJobRequest) (output, checkpoints string) {
	own := a.cfg.outputsOf(tenant)
	base := job.GetOutputConfig().GetOutputDir()
	switch {
	case base == "":
		base = filepath.Join(own, k.job)
		// Versions before this one had no folders of tenants: a job that began there goes on there.
		before := filepath.Join(a.cfg.DataDir, outputsFolder, k.job)
		if _, err := os.Lstat(before + checkpointsSuffix); err == nil {
			base = before
		}
		// Two directories a job, not three: most jobs leave nothing in them.
		return fmt.Sprintf("%s.attempt-%d", base, k.attempt), base + checkpointsSuffix
	case !filepath.IsAbs(base) && job.GetCommandConfig().GetCwd() != "":
		base = filepath.Join(job.GetCommandConfig().GetCwd(), base)
	case !filepath.IsAbs(base):
		base = filepath.Join(own, filepath.Join("/", base)) // nor above it, whatever dots it has
	}
	base = filepath.Join(base, k.job)
	return filepath.Join(base, fmt.Sprintf("attempt-%d", k.attempt)), filepath.Join(base, "checkpoints")
}

// checkpointsSuffix ends the name of a job's checkpoint directory.
const checkpointsSuffix = ".checkpoints"

// outputs knows which of the directories below outputsFolder tasks use. Most jobs leave nothing in theirs: those are removed.
type outputs struct {
	base string // outputsFolder

	mu    sync.Mutex
	users map[string]int
}

func newOutputs(cfg Config) *outputs {
	return &outputs{base: filepath.Join(cfg.DataDir, outputsFolder), users: make(map[string]int)}
}

// own are those of some directories that are this agent's to remove, and the ones that they lie in, the innermost first. Folders of
// tenants stay.
func (o *outputs) own(dirs []string) (all []string) {
	for _, dir := range dirs {
		for at := dir; at != o.base && lies(at, o.base) && (at == dir || filepath.Dir(at) != o.base); at = filepath.Dir(at) {
			all = append(all, at)
		}
	}
	return all
}

// use notes that a task uses directories, which need not be there yet.
func (o *outputs) use(dirs []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, dir := range o.own(dirs) {
		o.users[dir]++
	}
}

// leave notes that it does not any more. over: its processes are gone; what nobody uses then goes if nothing is in it.
func (o *outputs) leave(dirs []string, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, dir := range o.own(dirs) {
		if o.users[dir]--; o.users[dir] > 0 {
			continue
		}
		delete(o.users, dir)
		if over {
			_ = unix.Rmdir(dir) // it fails if something is in it
		}
	}
}

// unused calls do for a directory that no task uses, and keeps tasks from it meanwhile.
func (o *outputs) unused(dir string, do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users[dir] > 0 {
		return nil
	}
	return do()
}
