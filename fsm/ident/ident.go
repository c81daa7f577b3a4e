// Package ident has the names of things that the log mints: of jobs, checkpoints, API tokens and sessions.
//
// An id is the index of the entry that created the thing, and its place among the ids minted by that entry. So ids are
// unique, ordered by age, and cost nothing. Each has one spelling. Zero is none. The ids of the elements of a job array
// follow from that of the array.
package ident

import (
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Job identifies a job.
type Job uint64

// Checkpoint identifies a checkpoint.
type Checkpoint uint64

// Token identifies an API token. It is no secret.
type Token uint64

// Session identifies a session of a user. It is no secret.
type Session uint64

// Core identifies a Core, a hosted program.
type Core uint64

// Execution identifies an execution of a Core.
type Execution uint64

// Decision identifies a question to people.
type Decision uint64

// Flow identifies a flow, a program that people draw.
type Flow uint64

// FlowACL identifies a right of a user or a group on a flow.
type FlowACL uint64

// Deployment identifies a deployment of a flow.
type Deployment uint64

const (
	jobPrefix        = "job_"
	checkpointPrefix = "ckpt_"
	tokenPrefix      = "tok_"
	sessionPrefix    = "ses_"
	// An evaluation is a job, and goes by two names.
	evaluationPrefix = "eval_"
	corePrefix       = "core_"
	executionPrefix  = "exec_"
	decisionPrefix   = "dec_"
	flowPrefix       = "flow_"
	aclPrefix        = "acl_"
	deploymentPrefix = "dep_"
)

// FirstJobAfter is the lowest id that a job can have which was created after the entry of an index.
func FirstJobAfter(index uint64) Job { return Job(kernel.FirstID(index + 1)) }

// String is the id as users see it, such as "job_1k0g00", or "job_1k0gzz[7]" for the element 7 of an array.
func (id Job) String() string {
	if array, n, ok := id.Element(); ok {
		return kernel.FormatID(jobPrefix, uint64(array)) + "[" + strconv.FormatUint(uint64(n), 10) + "]"
	}
	return kernel.FormatID(jobPrefix, uint64(id))
}

// String is the id as users see it, such as "ckpt_1k0g00".
func (id Checkpoint) String() string { return kernel.FormatID(checkpointPrefix, uint64(id)) }

// String is the id as users see it, such as "tok_1k0g00".
func (id Token) String() string { return kernel.FormatID(tokenPrefix, uint64(id)) }

// String is the id as users see it, such as "ses_1k0g00".
func (id Session) String() string { return kernel.FormatID(sessionPrefix, uint64(id)) }

// EvaluationID is the name of a job as an evaluation, such as "eval_1k0g00".
func (id Job) EvaluationID() string { return kernel.FormatID(evaluationPrefix, uint64(id)) }

// ParseEvaluation reads what Job.EvaluationID wrote, and nothing else.
func ParseEvaluation(s string) (Job, bool) {
	n, ok := kernel.ParseID(evaluationPrefix, s)
	return Job(n), ok
}

// ParseToken reads what Token.String wrote, and nothing else.
func ParseToken(s string) (Token, bool) {
	n, ok := kernel.ParseID(tokenPrefix, s)
	return Token(n), ok
}

// ParseSession reads what Session.String wrote, and nothing else.
func ParseSession(s string) (Session, bool) {
	n, ok := kernel.ParseID(sessionPrefix, s)
	return Session(n), ok
}

// ParseJob reads what Job.String wrote, and nothing else: one job has one spelling.
func ParseJob(s string) (Job, bool) {
	if array, number, ok := strings.Cut(s, "["); ok {
		return parseElement(array, number)
	}
	n, ok := kernel.ParseID(jobPrefix, s)
	return Job(n), ok && Job(n)&elementFlag == 0
}

// ParseCheckpoint reads what Checkpoint.String wrote, and nothing else.
func ParseCheckpoint(s string) (Checkpoint, bool) {
	n, ok := kernel.ParseID(checkpointPrefix, s)
	return Checkpoint(n), ok
}

// String is the id as users see it, such as "core_1k0g00".
func (id Core) String() string { return kernel.FormatID(corePrefix, uint64(id)) }

// String is the id as users see it, such as "exec_1k0g00".
func (id Execution) String() string { return kernel.FormatID(executionPrefix, uint64(id)) }

// String is the id as users see it, such as "dec_1k0g00".
func (id Decision) String() string { return kernel.FormatID(decisionPrefix, uint64(id)) }

// ParseCore reads what Core.String wrote, and nothing else.
func ParseCore(s string) (Core, bool) {
	n, ok := kernel.ParseID(corePrefix, s)
	return Core(n), ok
}

// ParseExecution reads what Execution.String wrote, and nothing else.
func ParseExecution(s string) (Execution, bool) {
	n, ok := kernel.ParseID(executionPrefix, s)
	return Execution(n), ok
}

// ParseDecision reads what Decision.String wrote, and nothing else.
func ParseDecision(s string) (Decision, bool) {
	n, ok := kernel.ParseID(decisionPrefix, s)
	return Decision(n), ok
}

// String is the id as users see it, such as "flow_1k0g00".
func (id Flow) String() string { return kernel.FormatID(flowPrefix, uint64(id)) }

// String is the id as users see it, such as "acl_1k0g00".
func (id FlowACL) String() string { return kernel.FormatID(aclPrefix, uint64(id)) }

// String is the id as users see it, such as "dep_1k0g00".
func (id Deployment) String() string { return kernel.FormatID(deploymentPrefix, uint64(id)) }

// ParseFlow reads what Flow.String wrote, and nothing else.
func ParseFlow(s string) (Flow, bool) {
	n, ok := kernel.ParseID(flowPrefix, s)
	return Flow(n), ok
}

// ParseFlowACL reads what FlowACL.String wrote, and nothing else.
func ParseFlowACL(s string) (FlowACL, bool) {
	n, ok := kernel.ParseID(aclPrefix, s)
	return FlowACL(n), ok
}
