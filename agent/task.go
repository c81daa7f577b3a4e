package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// key names a task. The token is part of it: an attempt that was granted anew
// is another task.
type key struct {
	job           string
	attempt, rank int32
	token         uint64
}

func keyOf(ref *v1.TaskRef) key {
	return key{job: ref.GetJobId(), attempt: ref.GetAttempt(), rank: ref.GetRank(), token: ref.GetToken()}
}

func (k key) ref() *v1.TaskRef {
	return &v1.TaskRef{JobId: k.job, Attempt: k.attempt, Rank: k.rank, Token: k.token}
}

// name is that of the task's directory.
func (k key) name() string { return fmt.Sprintf("%s.%d.%d.%d", k.job, k.attempt, k.rank, k.token) }

func parseName(name string) (key, bool) {
	f := strings.Split(name, ".")
	if len(f) != 4 || f[0] == "" {
		return key{}, false
	}
	attempt, err1 := strconv.ParseInt(f[1], 10, 32)
	rank, err2 := strconv.ParseInt(f[2], 10, 32)
	token, err3 := strconv.ParseUint(f[3], 10, 64)
	k := key{job: f[0], attempt: int32(attempt), rank: int32(rank), token: token}
	return k, err1 == nil && err2 == nil && err3 == nil && k.name() == name
}

// valid refuses a job id that would not stay inside the task directory.
func (k key) valid() bool {
	return k.job != "" && len(k.job) <= 128 && !strings.ContainsAny(k.job, "./\\\x00\n")
}

type taskState int

const (
	// queued: waits for its turn to be launched.
	queued taskState = iota
	// launching: its shim is being started or found again.
	launching
	running
	// ended: no process of it is left.
	ended
)

// task is what the agent knows of one task. It belongs to the owner's
// goroutine.
type task struct {
	key   key
	dir   string
	state taskState
	// spec is kept until the task is launched.
	spec *v1.TaskSpec
	// data is there once it was fetched, cancelData while it is being fetched.
	data       *taskData
	cancelData context.CancelFunc
	// waitsFor is why it was not launched when it was its turn.
	waitsFor string
	// handle is there while a shim is.
	handle Process
	// stop is what was last asked of the shim, or is to be asked once there is
	// one.
	stop *shim.StopRequest
	// slot: it counts as being launched.
	slot    bool
	wanted  bool
	pid     int
	acked   bool
	endedAt time.Time
	// exit is kept until the coordinators know it.
	exit *shim.Exit
	// disowned: it was not wanted any more.
	disowned bool
	// has is what it has of the GPUs once it is being launched; it does not change any more then. faulted: one of them failed.
	has     holding
	faulted bool
	since   time.Time // when the agent took it up
}

// report addresses a body; the zero time means now.
func (t *task) report(body *v1.Report, at time.Time) *report {
	body.Task = t.key.ref()
	if !at.IsZero() {
		body.Time = timestamppb.New(at)
	}
	return &report{body: body}
}

// progress is a report of how far the launch is. The next one tells all that it
// did.
func (t *task) progress(body *v1.Report, at time.Time) *report {
	r := t.report(body, at)
	r.latest, r.mayWait = "launch", true
	return r
}

// maxTerm bounds the second grace period of a stop that gave notice.
const maxTerm = 10 * time.Second

// stopRequest translates an order. Who may want to save something gets a
// notice; a task whose work nobody will use does not.
func stopRequest(reason v1.StopReason_Value, grace time.Duration) shim.StopRequest {
	grace = max(0, grace)
	switch reason {
	case v1.StopReason_PAUSE, v1.StopReason_PREEMPT, v1.StopReason_DRAIN, v1.StopReason_TIME_LIMIT:
		return shim.StopRequest{Notice: grace, Term: min(grace, maxTerm)}
	case v1.StopReason_CANCEL:
		return shim.StopRequest{Term: grace}
	}
	return shim.StopRequest{Term: min(grace, maxTerm)}
}

// endedBody is the report of how a task ended.
func endedBody(exit shim.Exit) *v1.Report {
	body := &v1.TaskEnded{ErrorMessage: strings.ToValidUTF8(exit.Message, "\uFFFD")}
	if exit.Code >= 0 {
		code := int32(exit.Code)
		body.ExitCode = &code
	}
	switch {
	case exit.Failure != shim.FailureNone:
		body.ErrorType = v1.ErrorType_Value(v1.ErrorType_Value_value[exit.Failure])
		if body.ErrorType == v1.ErrorType_UNSPECIFIED {
			body.ErrorType = v1.ErrorType_INTERNAL
		}
	case exit.Stopped:
		// Whoever ordered the stop knows what comes of it. When nobody did, the agent was stopped and took its tasks along:
		// whatever the program's exit code says, it was cut off.
		body.ErrorType = v1.ErrorType_DRAINED
		if body.ErrorMessage == "" {
			body.ErrorMessage = "stopped by its node"
		}
	case exit.Code > 0:
		body.ErrorType = v1.ErrorType_EXIT_NONZERO
	}
	return &v1.Report{Body: &v1.Report_Ended{Ended: body}}
}

// tasksFolder, in the data directory, holds a directory for each task.
const tasksFolder = "tasks"

func (a *agent) tasksDir() string { return filepath.Join(a.cfg.DataDir, tasksFolder) }
