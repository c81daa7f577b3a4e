package table

import (
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Live returns the number of tasks that have or may still get processes.
func (tb *Table) Live() int {
	n := 0
	for _, t := range tb.order {
		if t.state != Ended {
			n++
		}
	}
	return n
}

// Adopted reports whether the tasks of an earlier agent were adopted.
func (tb *Table) Adopted() bool { return tb.adopted }

// All lists the tasks in order of arrival.
func (tb *Table) All() []Info {
	all := make([]Info, 0, len(tb.tasks))
	for _, t := range tb.order {
		all = append(all, t.info())
	}
	return all
}

// Get returns one task.
func (tb *Table) Get(id taskid.ID) (Info, bool) {
	t, ok := tb.tasks[id]
	if !ok {
		return Info{}, false
	}
	return t.info(), true
}

// Unacknowledged lists the tasks whose end the coordinators have not acknowledged.
func (tb *Table) Unacknowledged() (refs []*v1.TaskRef) {
	for _, t := range tb.order {
		if t.state != Ended || !t.acked {
			refs = append(refs, t.ID.Ref())
		}
	}
	return refs
}
