package status

import (
	"regexp"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// jobIs is how the state says where a job is when it refuses something.
var jobIs = regexp.MustCompile(`\b(job_[0-9a-z]+) is (QUEUED|ALLOCATED|STARTING|RUNNING|PAUSED|SUCCEEDED|FAILED|CANCELED|PREEMPTED|LOST)\b`)

// InWords writes what the state says of a job in the words that users see: "job_1 is SUCCEEDED" becomes "job_1 is COMPLETED".
// of says what a job in a state shows.
//
// The state keeps its own words: refusals stand in its audit log, which is part of what replicas compare, so versions that
// word them differently would disagree. They are translated wherever they are read.
func InWords(text string, of func(job string, state v1.JobState_Value) v1.JobStatus_Value) string {
	return jobIs.ReplaceAllStringFunc(text, func(said string) string {
		m := jobIs.FindStringSubmatch(said)
		return m[1] + " is " + of(m[1], v1.JobState_Value(v1.JobState_Value_value[m[2]])).String()
	})
}
