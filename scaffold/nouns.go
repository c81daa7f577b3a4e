package main

import (
	"fmt"
	"slices"
)

// A noun names a kind of object that commands change. Its texts are parts of Go code, which the templates put together.
type noun struct {
	name string
	// Of the state. Dir is below fsm. Lookup sets old, or returns a refusal; Save puts the row changed into the tables.
	Domain, Dir, Key, Lookup, Save, Result, Changed, Object, Kind string
	Imports                                                       []string
	// Of the test of the state: a command that finds nothing, why not, what makes the row, and a command that finds it.
	Missing, NoSuch, Setup, There string
	TestImports                   []string
	// Of the proto. Message is the type of the answer, and Field the field of the request that the path sets.
	Proto, Service, Message, Answer, Field string
	// Of the coordinators. Parse reads the request, Propose are the fields of the command, View makes the answer.
	Server, Proposer, Parse, Propose, View string
	ServerImports                          []string
	// Of the gateway: the path of one of them, its second path, and the permission of writes.
	Path, Alias, Permission string
	// Of the command line. Words come before the verb, List has the verbs, and Beside is the end of a line of cli.md.
	CLI, List, Words, Arg, Sample, Complete, Beside string
	CLIImports                                      []string
	// Of the conformance suite: which one to call it with, and whether it belongs to no tenant.
	Own    string
	Shared bool
}

var nouns = []noun{
	{
		name: "queue", Domain: "queueverbs", Dir: "work/queueverbs",
		Key: "Name string `cbor:\"1,keyasint,omitempty\"`", Object: "c.Name", Kind: "AboutOperation",
		Lookup: `old, ok := tx.Queue(c.Name)
	if !ok {
		return QueueResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoQueue, c.Name)}
	}`,
		Save: `changed.UpdatedAt, changed.Revision = tx.Now, tx.Index
	tx.SetQueue(&changed)
	tx.Emit(event.Event{Topic: event.TopicQueue, Name: c.Name, Queue: c.Name})`,
		Result: "QueueResult", Changed: "Queue: &changed", Imports: []string{"fsm/event"},
		Missing: `Name: "nope"`, NoSuch: "NoQueue", There: `Name: "research"`,
		Setup:   `require.Nil(t, w.queue("research", "", 0))`,
		Proto:   "cluster.proto",
		Service: "ClusterService", Message: "Queue", Answer: "queue", Field: "name",
		Server: "admin", Proposer: "s.replica", Propose: "Name: req.GetName()",
		View: "queueView(s.replica.View(), result.Queue, call.Of(ctx).Tenant, call.Of(ctx).Operator)",
		Path: "/queues/{name}", Permission: "cluster_admin",
		CLI: "cluster", List: "queuesVerbs", Words: "queues ", Arg: "QUEUE", Sample: "research", Complete: "completeQueues", Beside: "`mind queues ",
		Own: "ownQueue", Shared: true,
	},
	{
		name: "node", Domain: "nodeverbs", Dir: "work/nodeverbs",
		Key: "ID string `cbor:\"1,keyasint,omitempty\"`", Object: "c.ID", Kind: "AboutOperation",
		Lookup: `old, ok := tx.Node(c.ID)
	if !ok {
		return NodeResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoNode, c.ID)}
	}`,
		Save: "tx.SaveNode(old, &changed)", Result: "NodeResult", Changed: "Node: &changed",
		Missing: `ID: "nope"`, NoSuch: "NoNode", There: `ID: "n1"`,
		Setup:   `w.do(nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 8)})`,
		Proto:   "cluster.proto",
		Service: "ClusterService", Message: "Node", Answer: "node", Field: "node_id",
		Server: "admin", Proposer: "s.replica", Propose: "ID: req.GetNodeId()",
		View: "nodeView(s.replica.View(), result.Node, call.Of(ctx), s.activity(ctx, req.GetNodeId()))",
		Path: "/cluster/nodes/{id}", Alias: "/nodes/{id}", Permission: "cluster_admin",
		CLI: "cluster", List: "nodeVerbs", Words: "node ", Arg: "NODE", Sample: "n3", Complete: "completeNodes", Beside: "`mind node ",
		Own: "ownNode", Shared: true,
	},
	{
		name: "job", Domain: "jobverbs", Dir: "work/jobverbs",
		Key: "Tenant string `cbor:\"1,keyasint,omitempty\"`\n\tJob ident.Job `cbor:\"2,keyasint,omitempty\"`", Object: "c.Job.String()", Kind: "AboutJobs",
		Lookup: `old, ok := tx.Job(c.Job)
	if !ok || old.Tenant != c.Tenant {
		return ControlResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoJob, c.Job)}
	}`,
		Save: "tx.SaveJob(old, &changed)", Result: "ControlResult", Changed: "Job: &changed", Imports: []string{"fsm/ident"},
		Missing: `Tenant: "acme", Job: 1`, NoSuch: "NoJob", There: `Tenant: "acme", Job: id`,
		Setup: `id := w.submit(oneGPU())`,
		Proto: "jobs.proto", Service: "JobService", Message: "Job", Answer: "job", Field: "job_id",
		Server: "jobs", Proposer: "s.state", Parse: `id, ok := ident.ParseJob(req.GetJobId())
	if !ok {
		return nil, call.NotFound("job", req.GetJobId())
	}`,
		Propose: "Tenant: call.Of(ctx).Tenant, Job: id", View: "jobview.Of(s.state.View(), result.Job, false)",
		ServerImports: []string{"coordinator/jobview", "fsm/ident"},
		Path:          "/jobs/{id}", Permission: "manage",
		CLI: "jobs", List: "jobVerbs", Arg: "JOB", Sample: "job_1a2b", Complete: "CompleteJobs", Beside: "`mind retry ",
		Own: "runningJob",
	},
	{
		name: "checkpoint", Domain: "checkpointverbs", Dir: "work/checkpointverbs",
		Key: "Tenant string `cbor:\"1,keyasint,omitempty\"`\n\tID ident.Checkpoint `cbor:\"2,keyasint,omitempty\"`", Object: "c.ID.String()", Kind: "AboutJobs",
		Lookup: `old, refusal := ownCheckpoint(tx, c.Tenant, c.ID)
	if refusal != nil {
		return CheckpointResult{Refusal: refusal}
	}`,
		Save: "tx.ChangeCheckpoint(&changed)", Result: "CheckpointResult", Changed: "Checkpoint: &changed", Imports: []string{"fsm/ident"},
		Missing: `Tenant: "acme", ID: 1`, NoSuch: "NoCheckpoint", There: `Tenant: "acme", ID: id`,
		Setup: `w.do(nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 8)})
	job := w.submit(oneGPU())
	w.runOn(job, "n1")
	id := w.saves(job, 1)`,
		TestImports: []string{"fsm/work/nodeverbs"},
		Proto:       "jobs.proto", Service: "JobService", Message: "Checkpoint", Answer: "checkpoint", Field: "checkpoint_id",
		Server: "jobs", Proposer: "s.state", Parse: `id, ok := ident.ParseCheckpoint(req.GetCheckpointId())
	if !ok {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}`,
		Propose: "Tenant: call.Of(ctx).Tenant, ID: id", View: "jobview.Checkpoint(result.Checkpoint)",
		ServerImports: []string{"coordinator/jobview", "fsm/ident"},
		Path:          "/checkpoints/{id}", Permission: "manage",
		CLI: "catalog", List: "checkpointVerbs", Words: "checkpoint ", Arg: "CHECKPOINT", Sample: "ckpt_1a2b", Complete: "jobs.CompleteCheckpoints", Beside: "`mind checkpoint ",
		CLIImports: []string{"cmd/mind/cli/jobs"},
		Own:        "ownCheckpoint",
	},
	{
		name: "schedule", Domain: "scheduleverbs", Dir: "scheduleverbs",
		Key: "Tenant string `cbor:\"1,keyasint,omitempty\"`\n\tName string `cbor:\"2,keyasint,omitempty\"`", Object: "c.Name", Kind: "AboutOperation",
		Lookup: `old, ok := schedules.Of(tx.Entry.State).Schedule(schedules.Key{Tenant: c.Tenant, Name: c.Name})
	if !ok {
		return ScheduleResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)}
	}`,
		Save: `changed.UpdatedAt, changed.Revision = tx.Now, tx.Index
	saveSchedule(tx, &changed)`,
		Result: "ScheduleResult", Changed: "Schedule: &changed", Imports: []string{"fsm/schedules"},
		Missing: `Tenant: "acme", Name: "nope"`, NoSuch: "NoSchedule", There: `Tenant: "acme", Name: "nightly"`,
		Setup: `require.Nil(t, w.schedule(asItIs).Refusal)`,
		Proto: "schedules.proto", Service: "ScheduleService", Message: "Schedule", Answer: "schedule", Field: "name",
		Server: "schedules", Proposer: "s.State", Propose: "Tenant: call.Of(ctx).Tenant, Name: req.GetName()", View: "whole(result.Schedule)",
		Path: "/schedules/{name}", Permission: "manage",
		CLI: "schedule", List: "scheduleVerbs", Words: "schedule ", Arg: "NAME", Sample: "nightly", Complete: "", Beside: "`mind schedule ",
		Own: "ownSchedule",
	},
}

func nounNames() (names []string) {
	for _, n := range nouns {
		names = append(names, n.name)
	}
	return names
}

func findNoun(name string) (noun, error) {
	i := slices.IndexFunc(nouns, func(n noun) bool { return n.name == name })
	if i < 0 {
		return noun{}, fmt.Errorf("%q is no noun that is known here (%v): give one with NOUN=, or write the command by hand as docs/develop/extending.md says", name, nounNames())
	}
	return nouns[i], nil
}
