package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// tellDenialsEvery is how often denials are reported to the coordinators, and tellDenialsWithin how long a report may
	// take.
	tellDenialsEvery  = 5 * time.Second
	tellDenialsWithin = time.Minute
	// privateDirectory is the reason of a denial.
	privateDirectory = "PRIVATE_DIRECTORY"
)

// private returns the directories that no job may read through this agent.
func (c Config) private() *private.Paths {
	local := func(url string) string {
		dir, ok := strings.CutPrefix(url, "file://")
		if !ok {
			return ""
		}
		return dir
	}
	paths := []string{
		c.DataDir, filepath.Join(c.DataDir, outputs.Folder), c.Data.CacheDir, local(c.LogArchive.URL), local(c.CheckpointArchive.URL),
		c.TLS.Cert, c.TLS.Key, c.File,
	}
	return private.New(append(paths, c.PrivateDirs...)...)
}

// denied counts the requests of jobs for private paths, for the audit log.
type denied struct {
	node  string
	log   *slog.Logger
	tally denials.Tally
}

// note counts one denial: a job named a private path. what is the purpose, such as "working directory".
func (d *denied) note(job, what, path string) {
	one := denials.Denial{Outcome: "PERMISSION_DENIED", Reason: privateDirectory, What: what + " of " + job, Job: job, Address: d.node}
	if d.tally.Note(one, "", time.Now()) {
		d.log.Warn("a job named a private directory", "job", job, "as", what, "path", path)
	}
}

// tell reports denials to the coordinators until ctx ends. Denials that were not reported by then are in the agent's log
// only.
func (d *denied) tell(ctx context.Context, record func(context.Context, []*v1.Denial) error) {
	d.tally.Report(ctx, denials.Reports{
		By: "agent " + d.node, Every: tellDenialsEvery, Within: tellDenialsWithin, Record: record,
		Lost: func(_ context.Context, told []*v1.Denial, err error) {
			if ctx.Err() == nil {
				d.log.Error("denials are not in the audit log", "kinds", len(told), "error", err)
			}
		},
	})
}
