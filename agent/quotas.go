package agent

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/disk"
	"github.com/mindcoordinator/mind/agent/outputs"
)

// openQuotas prepares the quotas of jobs, if they are to have some.
func (a *agent) openQuotas(undo *undo) (err error) {
	if a.cfg.JobDiskMB == 0 {
		return nil
	}
	if a.isolation.Level == isolation.None && a.users == nil {
		return errors.New("job_disk_mb needs isolation or users: without them tasks are processes of the agent's user, and root is held to no quota")
	}
	if a.quotas, err = disk.Open(filepath.Join(a.cfg.DataDir, outputs.Folder), a.cfg.JobDiskMB); err != nil {
		return fmt.Errorf("job_disk_mb: %w", err)
	}
	undo.add(a.quotas.Close)
	return nil
}
