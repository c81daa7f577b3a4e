package sim

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/engine"
	"github.com/mindcoordinator/mind/chaos/sim/raft"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// users submit jobs, and change them. They repeat calls without an answer with the same key.
type users struct {
	w       *world
	jobs    []*wish
	pending int // submits and resumes without an answer
	done    bool
}

// wish is a job that a user wants.
type wish struct {
	name string
	id   ident.Job // 0: not acknowledged yet
	kind int
	job  jobverbs.NewJob
}

// The kinds of jobs.
const (
	workShort = iota
	workLong
	workEndless
	workFails
)

func (u *users) begin(w *world) {
	u.w = w
	for i := range w.knobs.jobs {
		u.submit(i)
	}
	u.meddle()
}

func (u *users) submit(i int) {
	w := u.w
	name := fmt.Sprintf("job-%d", i)
	pick := func(values ...int64) int64 { return engine.Pick(w.Engine, values...) }
	j := &wish{name: name, kind: engine.Pick(w.Engine, workShort, workLong, workEndless, workEndless, workFails)}
	j.job = jobverbs.NewJob{
		Tenant: "t", User: "u", Name: name, Priority: uint8(w.Rand.IntN(3)), Key: name, Fingerprint: uint64(i) + 1,
		Shape:       work.Shape{Nodes: 1, GPUs: uint16(1 + w.Rand.IntN(2))},
		Retry:       work.RetryPolicy{Max: uint16(pick(0, 1, 3, 9, 9)), On: work.RetryInfrastructure},
		LostAfter:   pick(10, 12, 15, 20, 30) * second,
		GiveUpAfter: pick(45, 90, 86_400) * second,
		Grace:       pick(1, 5, 30) * second,
	}
	if w.Chance(0.25) {
		j.job.Shape.Nodes = 2
	}
	if w.Chance(0.2) {
		j.job.Retry.On |= work.RetryExit
	}
	spec, err := jobspec.Encode(&v1.SubmitJobRequest{
		Name: name, SchedulingConfig: &v1.SchedulingConfig{GracePeriodSeconds: proto.Int32(int32(j.job.Grace / second))},
	})
	if err != nil {
		panic(err)
	}
	j.job.Spec = spec
	u.jobs = append(u.jobs, j)
	u.pending++
	w.After(w.Within(0, w.knobs.attack/3), func() { u.try(j) })
}

// try submits until there is an answer.
func (u *users) try(j *wish) {
	c := u.server()
	again := func() { u.w.After(u.w.Within(200*ms, 2*second), func() { u.try(j) }) }
	if c == nil {
		again()
		return
	}
	// The answer may be lost: then the user submits again, although the job exists.
	lost := !u.w.healed && u.w.Chance(0.2)
	c.propose(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j.job}}, func(o raft.Outcome, result any) {
		if o != raft.Applied || lost {
			again()
			return
		}
		r := result.(jobverbs.SubmitJobsResult).Results[0]
		switch {
		case r.Refusal != nil:
			u.w.fail(Forgotten, "%s was refused: %s", j.name, words.Of(r.Refusal.Reason))
		case j.id != 0 && j.id != r.Job:
			u.w.fail(Forgotten, "%s is %s and %s", j.name, j.id, r.Job)
		case j.id == 0:
			j.id = r.Job
			u.pending--
			u.w.truth.kept = append(u.w.truth.kept, r.Job)
			u.w.Note("acknowledged", j.name, r.Job.String(), uint64(c.log.Done()), 0)
		}
	})
}

// server returns a coordinator that believes that it leads.
func (u *users) server() *coordinator {
	n := len(u.w.coordinators)
	from := u.w.Rand.IntN(n)
	for i := range n {
		if c := u.w.coordinators[(from+i)%n]; c.Live() && c.term != nil {
			return c
		}
	}
	return nil
}

// meddle makes users and operators change jobs, queues and nodes at random.
func (u *users) meddle() {
	w := u.w
	w.After(w.Within(second, w.knobs.meddling), func() {
		if u.done {
			return
		}
		u.meddle()
		c := u.server()
		if c == nil {
			return
		}
		var command kernel.Command
		j := engine.Pick(w.Engine, u.jobs...)
		n := engine.Pick(w.Engine, w.nodes...).Name
		switch w.Rand.IntN(9) {
		case 0:
			command = jobverbs.ControlJob{Job: j.id, Action: work.ActionCancel}
		case 1:
			command = jobverbs.ControlJob{Job: j.id, Action: work.ActionPause, SaveCheckpoint: w.Chance(0.5)}
		case 2, 3:
			command = jobverbs.ControlJob{Job: j.id, Action: work.ActionResume}
		case 4, 5, 6:
			command = jobverbs.ControlJob{Job: j.id, Action: work.ActionRetry}
		case 7:
			command = nodeverbs.SetNode{ID: n, Action: nodeverbs.NodeDrain, Force: w.Chance(0.5), Deadline: 20 * second}
		case 8:
			command = nodeverbs.SetNode{ID: n, Action: nodeverbs.NodeEnable}
		}
		c.propose(command, func(raft.Outcome, any) {})
	})
}

// rest ends the changes, resumes all jobs, and enables all nodes.
func (u *users) rest() {
	u.done = true
	for _, j := range u.jobs {
		u.insist(func() kernel.Command {
			if j.id == 0 {
				return nil
			}
			return jobverbs.ControlJob{Job: j.id, Action: work.ActionResume}
		})
	}
	for _, n := range u.w.nodes {
		u.insist(func() kernel.Command { return nodeverbs.SetNode{ID: n.Name, Action: nodeverbs.NodeEnable} })
	}
}

// insist proposes a command until it succeeds. what returns nil while the command cannot be made yet.
func (u *users) insist(what func() kernel.Command) {
	u.pending++
	var try func()
	try = func() {
		again := func() { u.w.After(second, try) }
		c, command := u.server(), what()
		if c == nil || command == nil {
			again()
			return
		}
		c.propose(command, func(o raft.Outcome, _ any) {
			if o != raft.Applied {
				again()
				return
			}
			u.pending--
		})
	}
	// An earlier pause must end first.
	u.w.After(90*second, try)
}

func (u *users) unsettled() string {
	if u.pending > 0 {
		return fmt.Sprintf("%d wishes of users have no answer", u.pending)
	}
	names := map[string]ident.Job{}
	for j := range u.w.truth.view.Jobs(false, 0) {
		if first, twice := names[j.Name]; twice {
			u.w.fail(Forgotten, "%s is there twice: %s and %s", j.Name, first, j.ID)
		}
		names[j.Name] = j.ID
	}
	return ""
}

// behaviour returns how long a process runs if it is not stopped, and its exit code.
func (u *users) behaviour(name string) (run int64, code int) {
	w := u.w
	for _, j := range u.jobs {
		if j.name != name {
			continue
		}
		switch j.kind {
		case workShort:
			return w.Within(second, 40*second), 0
		case workLong:
			return w.Within(minute, 5*minute), 0
		case workFails:
			return w.Within(second, minute), 1
		}
	}
	return 1000 * minute, 0
}
