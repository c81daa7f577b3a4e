package work

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// A leader gives reasons as codes. Below level.CodedReasons, replicas may run versions of mind that know no
// code: the commands that carry a leader's reasons say them there in the words of that time.

// AtLevel is the command as an entry of a version has it.
func (c PlaceJobs) AtLevel(at level.Level) (kernel.Command, error) {
	if !level.Arrays.Open(at) {
		c.Reasons = slices.Clone(c.Reasons)
		for i := range c.Reasons {
			c.Reasons[i].Class.Array = 0
			c.Reasons[i].Reason = c.Reasons[i].Reason.At(at)
		}
	}
	if !level.Windows.Open(at) || !level.Domains.Open(at) {
		// Below them, no job has a term and no shape places more.
		c.Reasons = slices.Clone(c.Reasons)
		for i := range c.Reasons {
			c.Reasons[i].Class.Shape, c.Reasons[i].Class.Term = c.Reasons[i].Class.Shape.anywhere(), TermOpen
		}
	}
	return c, nil
}

// AtLevel is the command as an entry of a version has it.
func (c SetNode) AtLevel(at level.Level) (kernel.Command, error) {
	c.Reason = c.Reason.At(at)
	if c.Action == NodeFitness {
		return c, level.UnfitNodes.Check(at)
	}
	return c, nil
}

// AtLevel is the command as an entry of a version has it.
func (c ReportTasks) AtLevel(at level.Level) (kernel.Command, error) {
	if level.UnfitNodes.Open(at) {
		return c, nil
	}
	c.Reports = slices.Clone(c.Reports)
	for i := range c.Reports {
		r := &c.Reports[i]
		if r.ErrorType == v1.ErrorType_NODE_UNFIT {
			r.ErrorType = v1.ErrorType_DRAINED // the node gave it back
		}
		if level.TrainingErrors.Open(at) {
			continue
		}
		r.ErrorMessage = r.ErrorMessage.At(at)
		if e := (Ending{ErrorType: r.ErrorType, ExitCode: r.ExitCode}); e.Own() {
			r.ErrorType = v1.ErrorType_EXIT_NONZERO // what it is for replicas that do not know the types
		}
	}
	if !level.DurableCheckpoints.Open(at) && slices.ContainsFunc(c.Reports, exported) {
		// Registered as a checkpoint, it would be gone on from.
		c.Reports = slices.DeleteFunc(slices.Clone(c.Reports), exported)
	}
	return c, nil
}

func exported(r TaskReport) bool { return r.Model }

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
