// Package taskid names the tasks of a node.
//
// Contract: an ID names one task, and Name is the name of its directory below the agent's data directory. Parse is the
// inverse of Name.
//
// Guarantees: any two tasks of a node have different names: the fencing token is part of the name, so an attempt that was
// granted again is another task. The name of a valid ID stays inside the directory of the tasks.
//
// Not guaranteed: that a task with that name exists.
package taskid

import (
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ID names a task.
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

// Name is the name of the task's directory.
func (id ID) Name() string {
	return fmt.Sprintf("%s.%d.%d.%d", id.Job, id.Attempt, id.Rank, id.Token)
}

// Parse parses a name. It accepts only results of Name.
func Parse(name string) (ID, bool) {
	f := strings.Split(name, ".")
	if len(f) != 4 || f[0] == "" {
		return ID{}, false
	}
	attempt, err1 := strconv.ParseInt(f[1], 10, 32)
	rank, err2 := strconv.ParseInt(f[2], 10, 32)
	token, err3 := strconv.ParseUint(f[3], 10, 64)
	id := ID{Job: f[0], Attempt: int32(attempt), Rank: int32(rank), Token: token}
	return id, err1 == nil && err2 == nil && err3 == nil && id.Name() == name
}

// Valid refuses a job id whose directory would be elsewhere.
func (id ID) Valid() bool {
	return id.Job != "" && len(id.Job) <= 128 && !strings.ContainsAny(id.Job, "./\\\x00\n")
}
