package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// Tx is the application of one command to the tables.
type Tx struct {
	*tables.State
	Meta  *work.Meta
	Entry *kernel.Tx
	Index uint64
	Now   int64
	// retain are the jobs whose checkpoints are looked at when the command is done.
	retain []ident.Job
	arrays arrays
}

// Verb makes a command of this aggregate known; see kernel.Define.
func Verb[T, R any, P interface {
	*T
	kernel.Command
}](name string, apply func(tx *Tx, c *T) R, audit func(entry *kernel.Tx, c *T, result R)) kernel.CommandDef {
	return kernel.Define[T, R, P](name, func(entry *kernel.Tx, c *T) (result R) {
		Within(entry, func(tx *Tx) { result = apply(tx, c) })
		return result
	}, audit)
}

// Within changes the tables in an entry. It may be used within another one that has flushed its edits.
func Within(entry *kernel.Tx, change func(tx *Tx)) {
	tx := &Tx{
		State: tables.Of(entry.State), Meta: entry.Meta().(*work.Meta), Entry: entry,
		Index: entry.Index(), Now: entry.Now(),
	}
	change(tx)
	tx.Flush()
	tx.applyRetention()
	accounts.Settle(&tx.Bank)
	tx.SettleBudgets(tx.Now, tx.Index)
}

// Mint returns the next id of this entry; false when it has none left.
func (tx *Tx) Mint() (uint64, bool) { return tx.Entry.Mint() }

// Emit tells watchers of a change, when the entry has been applied.
func (tx *Tx) Emit(e event.Event) { event.Emit(tx.Entry, e) }
