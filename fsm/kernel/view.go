package kernel

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/level"
)

// View is the state as of one log index, as far as the kernel knows it. It never changes, costs no lock to read, and may
// be kept for as long as anybody likes.
type View struct {
	state *State
	sum   uint64
}

// State returns the state that domains make their views of.
func (v *View) State() *State { return v.state }

// Index is that of the last entry in this view.
func (v *View) Index() uint64 { return v.state.Index() }

// Now is log time, Unix nanoseconds.
func (v *View) Now() int64 { return v.state.Now() }

// Voters are the ids of the replicas that vote.
func (v *View) Voters() []string { return v.state.Voters() }

// VotersIndex is the index of the configuration that Voters is of.
func (v *View) VotersIndex() uint64 { return v.state.VotersIndex() }

// Level is the feature level: what may be written.
func (v *View) Level() level.Level { return v.state.Level() }

// Hash is the running state hash: equal on all replicas at the same index.
func (v *View) Hash() uint64 { return v.sum }

// NextDue is the log time from which on a tick has something to do; false: never, as things are.
func (v *View) NextDue() (int64, bool) {
	due, found := int64(0), false
	for i := range v.state.registry.domains {
		d := &v.state.registry.domains[i]
		if d.Due == nil {
			continue
		}
		if at, ok := d.Due(v.state); ok && (!found || at < due) {
			due, found = at, true
		}
	}
	return due, found
}

// maxFindings bounds what Check reports.
const maxFindings = 50

// Check says what does not hold of a state that always should: what the domains check, and that the running hash is as if
// computed again. Empty: all is well. It walks over everything.
func Check(v *View) []string {
	var found []string
	report := func(format string, args ...any) {
		if len(found) < maxFindings {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	for i := range v.state.registry.domains {
		if d := &v.state.registry.domains[i]; d.Check != nil {
			d.Check(v.state, func(format string, args ...any) { report(d.Name+": "+format, args...) })
		}
	}
	if sum := v.Recount(); sum != v.Hash() {
		report("I8: the running hash is %016x, computed again it is %016x", v.Hash(), sum)
	}
	return found
}

// Recount computes the hash again from all rows. It walks over everything: Hash must be equal to it.
func (v *View) Recount() uint64 {
	var sum uint64
	for i := range v.state.registry.records {
		sum += v.state.registry.records[i].Recount(v.state)
	}
	return sum
}
