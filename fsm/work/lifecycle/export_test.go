package lifecycle

import "github.com/mindcoordinator/mind/fsm/ident"

// Pending lists the arrays that the command has changed and not yet put in.
func (tx *Tx) Pending() []ident.Job { return tx.arrays.order }
