package checkpoints

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Check reports what does not hold of the rows and leftovers, each for itself, and of what is derived from them.
func Check(t *Tables, report kernel.Report) {
	rows, uploads, removals, paths := 0, 0, 0, 0
	var counts [8]int
	var stored int64
	for c := range t.rows.Rows() {
		rows++
		counts[c.State&7]++
		stored += c.StoredBytes
		checkRow(c, report)
		if !t.byJob.Has(jobRow{c.Job, c.ID}) {
			report("%s is not listed for its job", c.ID)
		}
		if !c.Expired() {
			paths++
			if !t.paths.Has(pathRow{c.Path, c.ID}) {
				report("%s is not listed by its path", c.ID)
			}
		}
		switch list, at := t.todoOf(c); {
		case list == nil:
			continue
		case !list.Has(at):
			report("%s is not listed as something to do", c.ID)
		case list == &t.uploads:
			uploads++
		default:
			removals++
		}
	}
	for l := range t.leftovers.Rows() {
		removals++
		stored += l.StoredBytes
		if _, there := t.rows.Get(l.ID); there || !KeyIsOf(l.Key, l.ID) || l.StoredBytes < 0 {
			report("I9: the leftover of %s has the key %q and %d bytes, and its row is there: %t", l.ID, l.Key, l.StoredBytes, there)
		}
		if !t.removals.Has(todo{l.Node, todoLeftover, uint64(l.ID)}) {
			report("the leftover of %s is not listed as something to do", l.ID)
		}
	}
	if rows != t.byJob.Len() || uploads != t.uploads.Len() || removals != t.removals.Len() || paths != t.paths.Len() {
		report("%d checkpoints, %d listed; %d uploads, %d listed; %d removals, %d listed; %d paths, %d listed",
			rows, t.byJob.Len(), uploads, t.uploads.Len(), removals, t.removals.Len(), paths, t.paths.Len())
	}
	if counts != t.counts || stored != t.stored {
		report("%v checkpoints by state with %d bytes archived, counted again %v with %d", t.counts, t.stored, counts, stored)
	}
}

func checkRow(c *Checkpoint, report kernel.Report) {
	switch {
	case c.State < 0 || c.State > v1.CheckpointState_EXPIRED:
		report("I9: %s has the state %d", c.ID, c.State)
	case c.Durable() && (c.ContentDigest == "" || !KeyIsOf(c.ArchiveKey(), c.ID)):
		report("I9: %s is DURABLE without a digest of its contents, or a key", c.ID)
	case !c.Durable() && !c.Expired() && c.ContentDigest != "":
		report("I9: %s is %s and has a digest of its contents", c.ID, c.State)
	case c.Left != 0 && !c.Expired():
		report("I9: %s is %s and is being removed", c.ID, c.State)
	case c.Expired() && c.Reason == "":
		report("I9: %s is EXPIRED without a reason", c.ID)
	case c.StoredBytes > 0 && !c.Durable() && c.Left&LeftArchived == 0:
		report("I9: %s is %s, and has %d bytes in the archive that nobody removes", c.ID, c.State, c.StoredBytes)
	case c.UploadedBytes < 0 || c.StoredBytes < 0 || c.UploadedBytes > max(c.SizeBytes, 0):
		report("%s has %d of %d bytes uploaded, %d stored", c.ID, c.UploadedBytes, c.SizeBytes, c.StoredBytes)
	}
}
