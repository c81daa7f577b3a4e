package work

import "github.com/mindcoordinator/mind/fsm/reason"

// Reasons calls see for each reason in the row.
func (j *Job) Reasons(see func(what string, why reason.Reason)) {
	see("the reason", j.Reason)
	see("the error", j.ErrorMessage)
	if j.Ending != nil {
		see("the ending", j.Ending.ErrorMessage)
	}
	for i := range j.Tasks {
		see("the error of a task", j.Tasks[i].ErrorMessage)
	}
	for i := range j.Past {
		see("the reason of a past attempt", j.Past[i].Reason)
	}
}

// Reasons calls see for each reason in the row.
func (n *Node) Reasons(see func(what string, why reason.Reason)) {
	see("the reason", n.Reason)
	if n.Drain != nil {
		see("the drain", n.Drain.Reason)
	}
	for i := range n.GPUs {
		see("the health of a GPU", n.GPUs[i].HealthReason)
	}
}
