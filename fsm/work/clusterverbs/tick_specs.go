package clusterverbs

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// maxSpecs bounds the rows that lose their spec in one Tick. Elements of the last array may be more.
const maxSpecs = 2000

// dropSpecs takes from the submissions that have been over for long what their users sent: it is most of their rows, and nothing
// reads it but people. The elements of an array have the same.
func dropSpecs(tx *lifecycle.Tx, res *TickResult) {
	if !tx.Entry.Open(bounds.Gate) {
		return
	}
	tx.Flush()
	for rows := 0; ; {
		j, at := tx.NextSpec()
		if j == nil || at > tx.Now {
			return
		}
		if rows >= maxSpecs {
			res.More = true
			return
		}
		rows++
		dropSpec(tx, j)
		res.SpecsDropped++
		if j.Array == nil {
			continue
		}
		for _, e := range slices.Collect(tx.Elements(j.ID, 0)) {
			rows++
			dropSpec(tx, e)
		}
	}
}

func dropSpec(tx *lifecycle.Tx, old *work.Job) {
	j := *old
	j.Spec, j.SpecDropped, j.Revision = nil, true, tx.Index
	tx.PutJob(old, &j)
}
