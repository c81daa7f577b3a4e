package checkpoints

import (
	"iter"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// The numbers of the kinds of rows.
const (
	record         = 45
	recordLeftover = 46
)

// Tables hold the checkpoints and leftovers, and what is derived from them to find them. Their methods read; what changes
// them is functions, so that a frozen copy that is embedded in a view offers none of it.
type Tables struct {
	rows      kernel.Table[ident.Checkpoint, *Checkpoint]
	leftovers kernel.Table[ident.Checkpoint, *Leftover]

	byJob kernel.Index[jobRow]
	// uploads lists what may have to be uploaded, by node; removals what has something left to be removed.
	uploads, removals kernel.Index[todo]
	// paths lists those that were not given up, by path.
	paths kernel.Index[pathRow]
	// needed lists the checkpoints that unfinished jobs go on from, or score.
	needed kernel.Index[jobRow]
	// counts has the rows by state, stored the bytes that they and the leftovers have in the archive.
	counts [8]int
	stored int64
}

type jobRow struct {
	job ident.Job
	id  ident.Checkpoint
}

// todo is a row that an agent may have to do something with.
type todo struct {
	node string
	kind todoKind
	// place orders them: the newest upload first, the oldest removal.
	place uint64
}

type todoKind uint8

const (
	todoUploading todoKind = iota + 1
	// todoWaiting is an upload that has not begun, or that something is in the way of.
	todoWaiting
	todoExpired
	todoLeftover
)

// id is that of the row.
func (t todo) id() ident.Checkpoint {
	if t.kind <= todoWaiting {
		return ident.Checkpoint(^t.place)
	}
	return ident.Checkpoint(t.place)
}

func lessTodo(a, b todo) bool {
	switch {
	case a.node != b.node:
		return a.node < b.node
	case a.kind != b.kind:
		return a.kind < b.kind
	}
	return a.place < b.place
}

type pathRow struct {
	path string
	id   ident.Checkpoint
}

// NewTables returns empty ones.
func NewTables() Tables {
	byID := func(a, b ident.Checkpoint) bool { return a < b }
	return Tables{
		rows:      kernel.NewTable[ident.Checkpoint, *Checkpoint](record, byID),
		leftovers: kernel.NewTable[ident.Checkpoint, *Leftover](recordLeftover, byID),
		byJob:     kernel.NewIndex(func(a, b jobRow) bool { return a.job < b.job || a.job == b.job && a.id < b.id }),
		needed:    kernel.NewIndex(func(a, b jobRow) bool { return a.id < b.id || a.id == b.id && a.job < b.job }),
		uploads:   kernel.NewIndex(lessTodo),
		removals:  kernel.NewIndex(lessTodo),
		paths:     kernel.NewIndex(func(a, b pathRow) bool { return a.path < b.path || a.path == b.path && a.id < b.id }),
	}
}

// Records are the kinds of rows; at finds the tables of a state.
func Records(at func(*kernel.State) *Tables) []kernel.RecordDef {
	return []kernel.RecordDef{
		kernel.Rows(record, "checkpoint", func(s *kernel.State) *kernel.Table[ident.Checkpoint, *Checkpoint] { return &at(s).rows },
			func(s *kernel.State, c *Checkpoint) error { Put(at(s), c); return nil }),
		kernel.Rows(recordLeftover, "leftover",
			func(s *kernel.State) *kernel.Table[ident.Checkpoint, *Leftover] { return &at(s).leftovers },
			func(s *kernel.State, l *Leftover) error { PutLeftover(at(s), l); return nil }),
	}
}

// Freeze returns a copy for a view.
func Freeze(t *Tables) Tables {
	return Tables{
		rows: t.rows.Freeze(), leftovers: t.leftovers.Freeze(), needed: t.needed.Freeze(), byJob: t.byJob.Freeze(), paths: t.paths.Freeze(),
		uploads: t.uploads.Freeze(), removals: t.removals.Freeze(), counts: t.counts, stored: t.stored,
	}
}

// todoOf returns the work that a row may need, and the list that has it; nil: nothing.
func (t *Tables) todoOf(c *Checkpoint) (*kernel.Index[todo], todo) {
	switch {
	case c.Uploads():
		return &t.uploads, todo{c.Node, todoUploading, ^uint64(c.ID)}
	case c.State == v1.CheckpointState_LOCAL || c.State == v1.CheckpointState_UPLOADING:
		return &t.uploads, todo{c.Node, todoWaiting, ^uint64(c.ID)}
	case c.Left != 0:
		return &t.removals, todo{c.Node, todoExpired, uint64(c.ID)}
	}
	return nil, todo{}
}

// Put puts a row in, in the place of the one with its id.
func Put(t *Tables, c *Checkpoint) {
	if old, ok := t.rows.Get(c.ID); ok {
		t.underive(old)
	}
	t.rows.Put(c.ID, c)
	t.byJob.Put(jobRow{c.Job, c.ID})
	if list, at := t.todoOf(c); list != nil {
		list.Put(at)
	}
	if !c.Expired() {
		t.paths.Put(pathRow{c.Path, c.ID})
	}
	t.counts[c.State&7]++
	t.stored += c.StoredBytes
}

// Drop takes a row out.
func Drop(t *Tables, c *Checkpoint) {
	t.rows.Delete(c.ID)
	t.byJob.Delete(jobRow{c.Job, c.ID})
	t.underive(c)
}

func (t *Tables) underive(c *Checkpoint) {
	if list, at := t.todoOf(c); list != nil {
		list.Delete(at)
	}
	if !c.Expired() {
		t.paths.Delete(pathRow{c.Path, c.ID})
	}
	t.counts[c.State&7]--
	t.stored -= c.StoredBytes
}

// PutLeftover puts one in that is not there yet.
func PutLeftover(t *Tables, l *Leftover) {
	t.leftovers.Put(l.ID, l)
	t.removals.Put(todo{l.Node, todoLeftover, uint64(l.ID)})
	t.stored += l.StoredBytes
}

// DropLeftover takes one out.
func DropLeftover(t *Tables, l *Leftover) {
	t.leftovers.Delete(l.ID)
	t.removals.Delete(todo{l.Node, todoLeftover, uint64(l.ID)})
	t.stored -= l.StoredBytes
}

// Need keeps the list of the checkpoints that jobs need: a job needed those of was, and needs those of is. 0 is none.
func Need(t *Tables, job ident.Job, was, is [2]ident.Checkpoint) {
	if was == is {
		return
	}
	for _, id := range was {
		t.needed.Delete(jobRow{job, id})
	}
	for _, id := range is {
		if id != 0 {
			t.needed.Put(jobRow{job, id})
		}
	}
}

// Needed says whether an unfinished job goes on from a checkpoint, or scores it.
func (t *Tables) Needed(id ident.Checkpoint) bool {
	found := false
	t.needed.AscendFrom(jobRow{id: id}, func(n jobRow) bool {
		found = n.id == id
		return false
	})
	return found
}

// NeededCount is how often Needed has a reason.
func (t *Tables) NeededCount() int { return t.needed.Len() }

// Leftover returns what the archive may still have of a checkpoint that is no longer there.
func (t *Tables) Leftover(id ident.Checkpoint) (*Leftover, bool) { return t.leftovers.Get(id) }

// Checkpoints iterates all checkpoints by id.
func (t *Tables) Checkpoints() iter.Seq[*Checkpoint] { return t.rows.Rows() }

// Checkpoint returns a checkpoint by its id.
func (t *Tables) Checkpoint(id ident.Checkpoint) (*Checkpoint, bool) { return t.rows.Get(id) }

// CheckpointsOf iterates the checkpoints of a job, oldest first.
func (t *Tables) CheckpointsOf(job ident.Job) iter.Seq[*Checkpoint] {
	return func(yield func(*Checkpoint) bool) {
		t.byJob.AscendFrom(jobRow{job: job}, func(k jobRow) bool {
			if k.job != job {
				return false
			}
			c, _ := t.rows.Get(k.id)
			return yield(c)
		})
	}
}

// newestOf iterates the checkpoints of a job, newest first.
func (t *Tables) newestOf(job ident.Job) iter.Seq[*Checkpoint] {
	return func(yield func(*Checkpoint) bool) {
		t.byJob.DescendFrom(jobRow{job, ^ident.Checkpoint(0)}, func(k jobRow) bool {
			if k.job != job {
				return false
			}
			c, _ := t.rows.Get(k.id)
			return yield(c)
		})
	}
}

// ResumePoints are the checkpoints from which the next attempt of a job may go on, best first: the newest ones of its own
// attempts after one that are known to be complete, with the newest that is DURABLE if it is older, and then the one that it
// was told to go on from.
func (t *Tables) ResumePoints(job ident.Job, after uint32, from ident.Checkpoint) []*Checkpoint {
	var points []*Checkpoint
	durable := false
	for c := range t.newestOf(job) {
		if durable && len(points) >= MaxResumePoints {
			break
		}
		if c.Digest == "" || c.Attempt <= after || !c.Resumable() {
			continue
		}
		if len(points) < MaxResumePoints || c.Durable() {
			points = append(points, c)
			durable = durable || c.Durable()
		}
	}
	if c, ok := t.Checkpoint(from); ok && c.Resumable() && !slices.Contains(points, c) {
		points = append(points, c)
	}
	return points
}

// CheckpointCount is how many there are in a state.
func (t *Tables) CheckpointCount(s v1.CheckpointState_Value) int { return t.counts[s&7] }

// ArchiveBytes is the size of the checkpoints in the archive, as far as agents have said.
func (t *Tables) ArchiveBytes() int64 { return t.stored }

// AtPath iterates the checkpoints of all jobs at a path that were not given up.
func (t *Tables) AtPath(path string) iter.Seq[*Checkpoint] {
	return func(yield func(*Checkpoint) bool) {
		t.paths.AscendFrom(pathRow{path: path}, func(p pathRow) bool {
			if p.path != path {
				return false
			}
			c, _ := t.rows.Get(p.id)
			return yield(c)
		})
	}
}

// wantedBelow says whether a checkpoint that was not given up is at a path or below it, on whatever node: they may share a
// file system.
func (t *Tables) wantedBelow(path string) bool {
	for range t.AtPath(path) {
		return true
	}
	below, found := strings.TrimSuffix(path, "/")+"/", false
	t.paths.AscendFrom(pathRow{path: below}, func(p pathRow) bool {
		found = strings.HasPrefix(p.path, below)
		return false
	})
	return found
}
