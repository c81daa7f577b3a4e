// Package taskid names the tasks of a node.
//
// Contract: an ID names one task, and Name is the name of its directory below the agent's data directory. Parse is the
// inverse of Name.
//
// Guarantees: any two tasks of a node have different names: the fencing token is part of the name, so an attempt that
// is granted again is another task. The name of a valid ID stays inside the directory of the tasks.
//
// Not guaranteed: that a task with that name exists.
package taskid

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ID identifies a task.
type ID struct {
	Job           string
	Attempt, Rank int32
	Token         uint64
}

// Of returns the ID of a task reference.
func Of(ref *v1.TaskRef) ID {
	return ID{Job: ref.GetJobId(), Attempt: ref.GetAttempt(), Rank: ref.GetRank(), Token: ref.GetToken()}
}

// Ref returns the task reference for the coordinators.
func (id ID) Ref() *v1.TaskRef {
	return &v1.TaskRef{JobId: id.Job, Attempt: id.Attempt, Rank: id.Rank, Token: id.Token}
}

// Name returns the name of the task's directory.
func (id ID) Name() string {
	return fmt.Sprintf("%s.%d.%d.%d", Dir(id.Job), id.Attempt, id.Rank, id.Token)
}

// Dir returns the form of a job's id in the name of a directory. For "job_1[7]", an element of a job array, it is
// "job_1_7": programs interpret brackets in a path as a pattern.
func Dir(job string) string {
	if array, rest, ok := strings.Cut(job, "["); ok && strings.HasSuffix(rest, "]") {
		return array + "_" + strings.TrimSuffix(rest, "]")
	}
	return job
}

// JobOf returns the job's id for a result of Dir.
func JobOf(dir string) string {
	if m := elementDir.FindStringSubmatch(dir); m != nil {
		return m[1] + "[" + m[2] + "]"
	}
	return dir
}

var elementDir = regexp.MustCompile(`^(job_[0-9a-z]+)_([0-9]+)$`)

// Parse parses a name. It accepts only results of Name.
func Parse(name string) (ID, bool) {
	f := strings.Split(name, ".")
	if len(f) != 4 || f[0] == "" {
		return ID{}, false
	}
	attempt, err1 := strconv.ParseInt(f[1], 10, 32)
	rank, err2 := strconv.ParseInt(f[2], 10, 32)
	token, err3 := strconv.ParseUint(f[3], 10, 64)
	id := ID{Job: JobOf(f[0]), Attempt: int32(attempt), Rank: int32(rank), Token: token}
	return id, err1 == nil && err2 == nil && err3 == nil && id.Name() == name
}

// Valid reports whether the task's directory would be in the directory of the tasks.
func (id ID) Valid() bool {
	return id.Job != "" && len(id.Job) <= 128 && !strings.ContainsAny(id.Job, "./\\\x00\n")
}
