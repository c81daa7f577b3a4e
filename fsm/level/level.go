// Package level says what each feature level of a cluster unlocks.
//
// The replicated state holds the level. A log entry of version N is applied as level N has it, and nothing is written that
// is above the level of the state, whichever coordinator leads: a replica that runs an older version of mind could not apply
// it. The level is raised when all coordinators support the next one (package upgrade of the coordinator), and it never
// falls. Before it is raised, each coordinator can go back to the version of mind that it ran before.
//
// Code that depends on the level asks a [Gate]. The gates are one table, so that a level says in one place what it brings.
package level

import "fmt"

// Level is a feature level. It is also the version of the log entries that are written at it.
type Level uint8

const (
	// Oldest is the first version of log entries that this version of mind applies.
	Oldest Level = 1
	// Base is the level of a state that was never raised.
	Base Level = 1
)

// Gate is something that is done from a level on.
type Gate struct {
	level Level
	what  string
}

// Level is where the gate opens.
func (g Gate) Level() Level { return g.level }

// String says what is unlocked.
func (g Gate) String() string { return g.what }

// Open says whether the gate is open at a level.
func (g Gate) Open(at Level) bool { return at >= g.level }

// Check returns a *Locked while the gate is closed.
func (g Gate) Check(at Level) error {
	if g.Open(at) {
		return nil
	}
	return &Locked{Gate: g, At: at}
}

// Locked is the error of what needs a higher level than the cluster has.
type Locked struct {
	Gate Gate
	At   Level
}

// Error implements error.
func (l *Locked) Error() string {
	return fmt.Sprintf("%s needs feature level %d, and the cluster is at %d: upgrade all coordinators, then see `mind raft level`", l.Gate, l.Gate.level, l.At)
}

// gates is the table: what NewGate has made, in order.
var gates []Gate

// NewGate makes a gate that opens at a level: the one after Released. Gates are package variables: what a level unlocks is known
// before main begins.
func NewGate(at Level, what string) Gate {
	g := Gate{level: at, what: what}
	gates = append(gates, g)
	if at == Released+1 {
		Newest = at
	}
	return g
}

// Unlocks lists what a level brings that the one below it has not.
func Unlocks(at Level) []string {
	var what []string
	for _, g := range gates {
		if g.level == at {
			what = append(what, g.what)
		}
	}
	if at > Newest && at == linked() {
		what = append(what, "the level that tests upgrade to")
	}
	return what
}

// Range is the levels that a version of mind supports: it can apply what is written at each of them.
type Range struct{ Oldest, Newest Level }

// Supported is the range of this program.
func Supported() Range { return Range{Oldest, linked()} }

// Has says whether a level is in the range.
func (r Range) Has(l Level) bool { return r.Oldest <= l && l <= r.Newest }

// String implements fmt.Stringer.
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return fmt.Sprint(r.Newest)
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}
