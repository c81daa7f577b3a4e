package virtual

import (
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/chaos/virtual/machine"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// CheckCheckpoints checks that each registered checkpoint is whole on disk and was written by a process of its attempt
// (I9), and that processes resumed only from registered checkpoints. It returns the number of checked checkpoints.
func (w *Workload) CheckCheckpoints() int {
	c := w.cluster
	v := c.newest()
	if v == nil {
		c.Findings.Add("no coordinator publishes a state")
		return 0
	}
	n := 0
	for _, j := range w.Jobs() {
		id, ok := ident.ParseJob(j.ID)
		if !ok {
			continue
		}
		registered := map[string]bool{}
		for cp := range v.CheckpointsOf(id) {
			n++
			path := machine.TruePath(cp.Path)
			registered[path] = true
			info, err := os.Stat(filepath.Join(path, "weights"))
			if err != nil || info.Size() != int64(len(filepath.Base(path))) || cp.SizeBytes != info.Size() || cp.Digest == "" {
				c.Findings.Add("I9: checkpoint %s of %s (%s, %d bytes) is not whole: %v", cp.ID, j.ID, path, cp.SizeBytes, err)
			}
			wrote := false
			for _, l := range c.World.Lives(j.ID) {
				wrote = wrote || l.Token == cp.Token && l.Attempt == int(cp.Attempt) && l.Rank == int(cp.Rank) && l.Node == cp.Node
			}
			if !wrote {
				c.Findings.Add("I9: checkpoint %s of %s comes from attempt %d rank %d (token %d) on %s, which never ran\n%s",
					cp.ID, j.ID, cp.Attempt, cp.Rank, cp.Token, cp.Node, c.World.Story(j.ID))
			}
		}
		for _, l := range c.World.Lives(j.ID) {
			if l.ResumeFrom != "" && !registered[machine.TruePath(l.ResumeFrom)] {
				c.Findings.Add("I9: %s goes on from %s, which is not registered", &l, l.ResumeFrom)
			}
		}
	}
	return n
}
