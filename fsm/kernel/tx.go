package kernel

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/level"
)

// Tx is the application of one entry to the working state.
type Tx struct {
	*State
	minted int
	pos    int
	// audited counts the audit records of this entry.
	audited uint32
	// level is that at which the entry was written.
	level level.Level
	// events is a *[]E, where E is the type of events of this machine.
	events any
}

// Open says whether the entry was written at a level that has what the gate unlocks.
func (tx *Tx) Open(g level.Gate) bool { return g.Open(tx.level) }

// Mint returns the next id of this entry; false when it has none left. The last one is for job arrays, whose ids are made
// elsewhere.
func (tx *Tx) Mint() (uint64, bool) {
	if tx.minted >= MaxIDsPerEntry-1 {
		return 0, false
	}
	id := FirstID(tx.Index()) + uint64(tx.minted)
	tx.minted++
	return id, true
}

// NextEvent is the place of the next event among those of the entry.
func (tx *Tx) NextEvent() int {
	tx.pos++
	return tx.pos - 1
}

// NextAudit is the place of the next audit record among those of the entry.
func (tx *Tx) NextAudit() uint32 {
	tx.audited++
	return tx.audited - 1
}

// Emit tells watchers of a change, when the entry has been applied. E is that of the machine.
func Emit[E any](tx *Tx, e E) {
	to := tx.events.(*[]E)
	*to = append(*to, e)
}

// Perform applies a command that is inside another one, and records it in the audit log. done is false if it was refused.
// Like the entry itself, a command that cannot be understood stops the replica.
func (tx *Tx) Perform(data []byte) (result any, done bool) {
	c, err := tx.registry.decodeCommand(data)
	if err != nil || c.command == nil {
		panic(fmt.Sprintf("fsm: a command inside another one cannot be applied, so this replica stops: %v", err))
	}
	result = c.def.apply(tx, c.command)
	if c.def.audit != nil {
		c.def.audit(tx, c.command, result)
	}
	return result, c.def.refusal == nil || c.def.refusal(result) == nil
}

// FireTimers lets all domains with a timer do what is due; true: there is more. A command that lets time pass calls it.
func (tx *Tx) FireTimers() (more bool) {
	for i := range tx.registry.domains {
		if d := &tx.registry.domains[i]; d.Tick != nil && d.Tick(tx) {
			more = true
		}
	}
	return more
}
