package jobview

import (
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/overdraft"
)

// Reason returns a sentence that explains the job's status.
func Reason(v *fsm.View, j *work.Job) string {
	silent := silentReason(v, j)
	switch {
	case j.Stop != v1.StopReason_UNSPECIFIED:
		return "being stopped (" + j.Stop.String() + ")" + suffix(words.Of(j.Reason)) + suffix(silent)
	case silent != "":
		return silent
	case j.Live():
		if why := hoursReason(v, j); why != "" {
			return why
		}
		if j.Reason == "" {
			return transferReason(j)
		}
		return words.Of(j.Reason)
	case j.HeldBack():
		return heldReason(v, j) + suffix(placesHeld(v, j))
	case j.State != v1.JobState_QUEUED:
		return words.Of(j.Reason)
	case !Considered(v, j):
		return "not yet considered by the scheduler"
	}
	if c, kept := v.ClaimOf(j.ID); kept && !c.IsHold() {
		return words.Of(reason.New(reason.PreemptsOthers, len(c.Victims), c.GPUs()))
	}
	if p, promised := v.PromiseOf(j.ID); promised {
		return words.Of(reason.New(reason.StartReserved, p.StartAt/1e9, named(p.Nodes())))
	}
	why := words.Of(Said(v, j))
	if held := placesHeld(v, j); held != "" {
		why = held + suffix(why)
	}
	if awaits := awaitReason(v, j); awaits != "" {
		why += suffix(awaits)
	}
	return why
}

// hoursReason says when a live job is stopped because its tenant has used up its GPU hours; empty: it is not.
func hoursReason(v *fsm.View, j *work.Job) string {
	at, stops := overdraft.StopsAt(v, j)
	if !stops {
		return ""
	}
	quota, _ := v.Quota(j.Tenant)
	return words.Of(reason.New(reason.StopsForHours, *quota.MaxGPUHours, clock(at)))
}

// Said returns the scheduler's last reason for a waiting job, or the job's own reason.
func Said(v *fsm.View, j *work.Job) reason.Reason {
	if said := v.ClassReason(v.ClassOf(j)); said != "" {
		return said
	}
	return j.Reason
}

// placesHeld describes a job's claim after a fault: the GPUs that are kept, until when, and the missing nodes.
func placesHeld(v *fsm.View, j *work.Job) string {
	c, kept := v.ClaimOf(j.ID)
	if !kept || !c.IsHold() {
		return ""
	}
	return words.Of(reason.New(reason.PlacesHeld, c.GPUs(), c.Missing(j.Shape.Nodes), clock(c.Until)))
}

// heldReason returns until when a job is held, and why.
func heldReason(v *fsm.View, j *work.Job) string {
	if j.Held&work.HoldUser != 0 {
		return words.Of(work.HoldReason(j))
	}
	if j.Held&work.HoldRecovery != 0 {
		return recoveryReason(v, j)
	}
	var until []string
	if j.Held&work.HoldNotBefore != 0 {
		until = append(until, clock(j.NotBefore)+" (not_before)")
	}
	if j.Held&work.HoldDependency != 0 {
		until = append(until, "the jobs that it depends on have ended")
	}
	if j.Held&work.HoldBackoff != 0 {
		until = append(until, clock(j.Streak.After)+" (a pause before its next restart)")
	}
	why := "held until " + strings.Join(until, ", and until ")
	if j.Held == work.HoldBackoff {
		why += "; it " + words.Of(j.Reason)
	}
	return why
}

func suffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func clock(unixNanos int64) string { return time.Unix(0, unixNanos).UTC().Format(time.RFC3339) }
