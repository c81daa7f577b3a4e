package jobview

import (
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// explainReserved describes the reserved start of a job, and why it differs from the first one; or a time limit with
// which the job would delay no reserved start of others.
func explainReserved(v *fsm.View, j *work.Job, now time.Time) []string {
	if p, promised := v.PromiseOf(j.ID); promised {
		said := "its start is reserved since " + clock(p.Since)
		if p.First != p.StartAt {
			said += fmt.Sprintf(", at first for %s%s", clock(p.First), suffix(words.Of(p.Cause)))
		}
		return []string{said}
	}
	why := v.ClassReason(v.ClassOf(j))
	if why.Code() != reason.WouldDelay || len(why.Params()) != 1 {
		return nil
	}
	left := time.Duration(why.Params()[0].Number*1e9 - max(v.Now(), now.UnixNano()) - promises.Startup - promises.Slack - j.Grace)
	if left < time.Minute {
		return nil
	}
	return []string{fmt.Sprintf("with a time limit below %s it could start now (--time-limit)", left.Truncate(time.Minute))}
}
