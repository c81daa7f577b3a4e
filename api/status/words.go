package status

import (
	"regexp"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// jobIs matches a job's state in a refusal.
var jobIs = regexp.MustCompile(`\b(job_[0-9a-z]+(?:\[\d+\])?) is (QUEUED|ALLOCATED|STARTING|RUNNING|PAUSED|SUCCEEDED|FAILED|CANCELED|PREEMPTED|LOST)\b`)

// InWords replaces states by the status that users see: "job_1 is SUCCEEDED" becomes "job_1 is COMPLETED". of returns the
// status of a job in a state.
//
// In the replicated state, refusals name states: they are in the audit log, which replicas compare, so versions with
// different words would disagree. InWords translates them when they are read.
func InWords(text string, of func(job string, state v1.JobState_Value) v1.JobStatus_Value) string {
	return jobIs.ReplaceAllStringFunc(text, func(said string) string {
		m := jobIs.FindStringSubmatch(said)
		return m[1] + " is " + of(m[1], v1.JobState_Value(v1.JobState_Value_value[m[2]])).String()
	})
}
