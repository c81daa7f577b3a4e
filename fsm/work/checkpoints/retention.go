package checkpoints

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// MaxMetricName bounds the name of the metric that decides what is best, in bytes.
const MaxMetricName = 128

// Retention is which checkpoints of a job are kept.
type Retention struct {
	// Keep is how many of the newest; 0: all.
	Keep uint32 `cbor:"1,keyasint,omitempty"`
	// Best is how many of those with the best value of Metric, wherever they are in the order.
	Best uint32 `cbor:"2,keyasint,omitempty"`
	// Metric is its name. The least value is the best; after a "+" the greatest.
	Metric string `cbor:"3,keyasint,omitempty"`
}

// AppendFields adds it to the fields of a row.
func (r Retention) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Num(uint64(r.Keep)<<32 | uint64(r.Best)).Text(r.Metric)
}

// Score orders checkpoints by their metrics: the greater, the better; 0: the metric is not there, or is no number. Numbers of
// 64 bits are kept instead of floating point, so that nothing depends on how a machine compares.
func (r Retention) Score(metrics string) uint64 {
	name, greatest := strings.CutPrefix(r.Metric, "+")
	if r.Best == 0 || name == "" || metrics == "" {
		return 0
	}
	var all map[string]json.RawMessage
	var value *float64
	if json.Unmarshal([]byte(metrics), &all) != nil || json.Unmarshal(all[name], &value) != nil || value == nil || math.IsNaN(*value) {
		return 0
	}
	v := *value
	if !greatest {
		v = -v
	}
	bits := math.Float64bits(v + 0) // one zero, not two
	if v < 0 {
		return ^bits
	}
	return bits | 1<<63
}

// saved has the checkpoints of one step, on one node or on several.
type saved struct {
	rows   []*Checkpoint
	newest ident.Checkpoint
	score  uint64
	keep   bool
}

// durable says whether the archive has all of it. A directory that several nodes share is there once.
func (s *saved) durable() bool {
	for _, c := range s.rows {
		if !c.Durable() && !slices.ContainsFunc(s.rows, func(o *Checkpoint) bool { return o.Durable() && o.SameFiles(c) }) {
			return false
		}
	}
	return true
}

// Excess lists those of a job's checkpoints that retention gives up, oldest first. all has the checkpoints by age, needed says
// what something else depends on.
//
// The checkpoints of one step on several nodes stay or go together. Pinned ones and models stay. So does the newest one that
// is DURABLE, until a newer one is; and the uploads that are under way since then, or a job that saves faster than it
// uploads would never have any. Of those that do not get on, the oldest stays.
func (r Retention) Excess(all []*Checkpoint, needed func(ident.Checkpoint) bool) []*Checkpoint {
	if r.Keep == 0 {
		return nil
	}
	steps := bySteps(all)
	slices.SortFunc(steps, func(a, b *saved) int { return cmp.Compare(b.newest, a.newest) })
	for i, s := range steps {
		s.keep = i < int(r.Keep) || slices.ContainsFunc(s.rows, func(c *Checkpoint) bool { return c.Pinned || needed(c.ID) })
	}
	keepDurable(steps)
	keepUploads(steps)
	slices.SortStableFunc(steps, func(a, b *saved) int { return cmp.Compare(b.score, a.score) })
	for i, s := range steps {
		if i < int(r.Best) && s.score > 0 {
			s.keep = true
		}
	}
	var excess []*Checkpoint
	for _, s := range steps {
		if !s.keep {
			excess = append(excess, s.rows...)
		}
	}
	slices.SortFunc(excess, func(a, b *Checkpoint) int { return cmp.Compare(a.ID, b.ID) })
	return excess
}

// bySteps puts together what was saved of one step. A program that does not count steps saves one of each path.
func bySteps(all []*Checkpoint) []*saved {
	type place struct {
		step int64
		path string
	}
	at := map[place]*saved{}
	var steps []*saved
	for _, c := range all {
		if !c.Resumable() {
			continue
		}
		p := place{step: c.Step}
		if c.Step <= 0 {
			p = place{path: c.Path}
		}
		s := at[p]
		if s == nil {
			s = &saved{}
			at[p] = s
			steps = append(steps, s)
		}
		s.rows = append(s.rows, c)
		s.newest, s.score = max(s.newest, c.ID), max(s.score, c.Score)
	}
	return steps
}

// keepDurable marks what an attempt on another node would go on from, in steps that are sorted newest first.
func keepDurable(steps []*saved) {
	var newest ident.Checkpoint
	var holds *saved
	for _, s := range steps {
		for _, c := range s.rows {
			if c.Durable() && c.ID > newest {
				newest, holds = c.ID, s
			}
		}
	}
	if holds != nil {
		holds.keep = true
	}
	if i := slices.IndexFunc(steps, (*saved).durable); i >= 0 {
		steps[i].keep = true
	}
	var begun *saved
	for _, s := range steps {
		if slices.ContainsFunc(s.rows, func(c *Checkpoint) bool { return c.State == v1.CheckpointState_UPLOADING && c.ID > newest }) {
			begun = s
		}
	}
	if begun != nil {
		begun.keep = true
	}
}

// keepUploads marks what is being uploaded and newer than all that the archive has as a whole, in steps that are sorted newest
// first.
func keepUploads(steps []*saved) {
	for _, s := range steps {
		if s.durable() {
			return
		}
		s.keep = s.keep || slices.ContainsFunc(s.rows, (*Checkpoint).Uploads)
	}
}

// Replaced lists the DURABLE ones whose directory has been written over by one that is DURABLE too.
func Replaced(all []*Checkpoint, needed func(ident.Checkpoint) bool) []*Checkpoint {
	type place struct{ path, node string }
	newest := map[place]ident.Checkpoint{}
	for _, c := range all {
		if c.Durable() {
			newest[place{c.Path, c.Node}] = c.ID
		}
	}
	var replaced []*Checkpoint
	for _, c := range all {
		if c.Durable() && newest[place{c.Path, c.Node}] != c.ID && !c.Pinned && !needed(c.ID) {
			replaced = append(replaced, c)
		}
	}
	return replaced
}
