// Package explain has the command that says why a job is where it is.
//
// It prints what the coordinators answer, and computes nothing itself.
package explain

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// explained is the answer of GET /jobs/{id}/explain.
type explained struct {
	Status          string     `json:"status"`
	Reason          string     `json:"reason"`
	Position        *int       `json:"queue_position"`
	Details         []string   `json:"details"`
	Obstacles       []obstacle `json:"obstacles"`
	EstimatedStart  *time.Time `json:"estimated_start_at"`
	Remedies        []remedy   `json:"remedies"`
	RemediesOmitted bool       `json:"remedies_omitted"`
	WhatIf          *whatIf    `json:"what_if"`
	At              *moment    `json:"at"`
}

// moment is the earlier time that an explanation is about.
type moment struct {
	Index   uint64    `json:"index"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	NodeIDs []string  `json:"node_ids"`
	Last    *struct {
		Index   uint64    `json:"index"`
		Time    time.Time `json:"time"`
		Message string    `json:"message"`
	} `json:"last_change"`
}

type obstacle struct {
	Kind    string      `json:"kind"`
	Message string      `json:"message"`
	JobIDs  []string    `json:"job_ids"`
	Nodes   []nodeCount `json:"nodes"`
}

type nodeCount struct {
	Check    string   `json:"check"`
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples"`
}

type remedy struct {
	Message  string `json:"message"`
	Flags    string `json:"flags"`
	Command  string `json:"command"`
	Operator bool   `json:"operator"`
	Answer   whatIf `json:"answer"`
}

type whatIf struct {
	Suppose        []string   `json:"what_if"`
	StartsNow      bool       `json:"starts_now"`
	NodeIDs        []string   `json:"node_ids"`
	Preempts       int        `json:"preempts"`
	EstimatedStart *time.Time `json:"estimated_start_at"`
	StartsAfter    string     `json:"starts_after"`
	Reason         string     `json:"reason"`
	Obstacles      []obstacle `json:"obstacles"`
}

// checks are descriptions of the checks that exclude a node for a task.
var checks = map[string]string{
	"LOST": "lost", "UNREACHABLE": "unreachable", "DRAINED": "drained or being drained", "UNFIT": "unable to start tasks", "LABELS": "without the labels",
	"GPU_TYPE": "without GPUs of the type", "GPU_MEMORY": "GPUs with too little memory", "GPU_COUNT": "too few such GPUs",
	"CPU_COUNT": "too few CPUs", "MEMORY_SIZE": "too little memory", "GPU_HEALTH": "GPUs not healthy",
	"MAY_STILL_RUN": "may not replace an earlier attempt", "GPUS_IN_USE": "GPUs in use", "CPUS_IN_USE": "CPUs in use",
	"MEMORY_IN_USE": "memory in use", "LINKS": "free GPUs not linked", "FAILED_THERE": "an earlier attempt failed there",
	"FITS": "has room",
}

// Command returns the command.
func Command() *cobra.Command {
	var suppose []string
	var at, code string
	cmd := rest.Command(&cobra.Command{
		Use:   "explain JOB | explain --code CODE",
		Short: "Explain why a job has its status, and what would let it start",
		Long: `Explains why a job has its status. For a waiting job it shows what keeps it: how many nodes fail on what, limits, holds, jobs
ahead; when it starts, if that is known; and single changes with which it would start now, each of which was planned by
the scheduler. The estimated start is made of the jobs of your tenant alone, so it is the earliest possible one.

--what-if explains what would happen to it with a change, without changing anything. The keys:
  gpus, nodes               GPUs over all nodes, and the number of nodes
  gpu_fraction, gpu_type    part of one GPU; type of the GPUs, empty for any
  gpu_memory_mb, cpus, memory_mb
                            of each GPU; of each node
  selector, topology        LABEL=VALUE,..., empty for none; any, nvlink or single_node
  queue, priority           another queue; 0 to 10
  max_runtime               its time limit, such as 2h; 0 for none
  held=false                not held by its time, or by jobs that it depends on
  cancel=JOB                without another job of your tenant
  quota.max_gpus, quota.max_running_jobs, quota.max_gpu_hours, quota.max_gpus_by_type
                            other limits of the tenant, by type such as H100=16,A100=4; none for no limit
  queue.max_gpus=none, queue.max_gpus_by_type=none
                            without a limit of its queue
  maintenance=none, reservations=none, protection=none
                            without maintenances, reservations of other tenants, protection from preemption

--at answers all of this as it was at an earlier moment: the coordinator takes its last saved state before it, and replays
its log up to there. The moment is the index of a log entry (events and the audit log have it), a time, or a duration back
from now. Coordinators keep some thousands of entries; one that does not reach back says from where on it does.

--code explains a reason instead of a job: the code of a reason, its number, or some words of its sentence. It asks no
cluster.`,
		Example: `  mind explain job_1a2b
  mind explain job_1a2b --what-if gpus=4 --what-if gpu_type=A100
  mind explain job_1a2b --what-if quota.max_gpus=64 -o json
  mind explain job_1a2b --at 10m
  mind explain job_1a2b --at 2026-01-02T03:04:05Z --what-if gpus=4
  mind explain --code NeedsFreeGPUs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("code") {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		ValidArgsFunction: jobs.CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got explained
		query := url.Values{}
		if len(suppose) > 0 {
			query["what_if"] = suppose
		}
		if at != "" {
			query.Set("at", at)
		}
		data, err := c.Get(ctx, "/jobs/"+url.PathEscape(args[0])+"/explain", query, &got)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		switch {
		case output != "table":
			return render.Data(w, output, data)
		case got.WhatIf != nil:
			fmt.Fprint(w, got.At.say()+got.WhatIf.say(args[0]))
		default:
			fmt.Fprint(w, got.say(args[0]))
		}
		return nil
	})
	cmd.Flags().StringArrayVar(&suppose, "what-if", nil, "KEY=VALUE that is supposed to be different; repeatable")
	cmd.Flags().StringVar(&at, "at", "", "an earlier moment: the index of a log entry, a time such as 2026-01-02T15:04:05Z, or 10m")
	cmd.Flags().StringVar(&code, "code", "", "explain a reason: its code, its number, or words of its sentence")
	_ = cmd.RegisterFlagCompletionFunc("code", completeReasons) // fails only for an unknown flag, or if called twice
	explainJob := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("code") {
			return explainJob(cmd, args)
		}
		output, err := cmd.Flags().GetString("output")
		if err != nil {
			return err
		}
		return explainReason(cmd.OutOrStdout(), output, code)
	}
	return cmd
}

// say formats the answer for people.
func (e *explained) say(job string) string {
	var b strings.Builder
	b.WriteString(e.At.say())
	is, starts := "is", "would start now"
	if e.At != nil {
		is, starts = "was", "would have started then"
	}
	fmt.Fprintf(&b, "%s %s %s", job, is, e.Status)
	if e.Position != nil {
		fmt.Fprintf(&b, ", place %d in its queue", *e.Position)
	}
	b.WriteString("\n")
	if e.Reason != "" {
		b.WriteString(render.Printable(e.Reason) + "\n")
	}
	said := append([]string{e.Reason}, e.Details...)
	b.WriteString(facts(e.Obstacles, said))
	for _, d := range e.Details {
		b.WriteString("- " + render.Printable(d) + "\n")
	}
	if len(e.Remedies) > 0 {
		fmt.Fprintf(&b, "\nIt %s:\n", starts)
		t := render.NewTable(&b, "  CHANGE", "HOW")
		for i := range e.Remedies {
			r := &e.Remedies[i]
			t.Row("  "+r.Message, r.how(job))
		}
		t.Flush()
	}
	if e.RemediesOmitted {
		b.WriteString("\nChanges that would let it start now are not searched for again so soon: ask again in a minute.\n")
	}
	return b.String()
}

// say formats the moment of an answer, and the last change before it.
func (m *moment) say() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "At %s, after log entry %d:\n", m.Time.UTC().Format(time.RFC3339), m.Index)
	if m.Last != nil {
		fmt.Fprintf(&b, "%s, entry %d: %s\n", m.Last.Time.UTC().Format(time.RFC3339), m.Last.Index, render.Printable(m.Last.Message))
	}
	if len(m.NodeIDs) > 0 {
		fmt.Fprintf(&b, "attempt %d on %s\n", m.Attempt, strings.Join(m.NodeIDs, ", "))
	}
	return b.String()
}

// how returns the command that makes the change of a remedy.
func (r *remedy) how(job string) string {
	switch {
	case r.Operator:
		return "an operator can set it"
	case r.Command != "":
		return r.Command
	case r.Flags != "":
		return "mind submit " + r.Flags
	}
	return "--what-if " + strings.Join(r.Answer.Suppose, " --what-if ")
}

// facts lists obstacles, except those that were already mentioned.
func facts(obstacles []obstacle, said []string) string {
	var b strings.Builder
	for i := range obstacles {
		o := &obstacles[i]
		if !slices.Contains(said, o.Message) {
			fmt.Fprintf(&b, "- %s\n", render.Printable(o.Message))
		}
		if len(o.Nodes) == 0 {
			continue
		}
		t := render.NewTable(&b, "  NODES", "WHY NOT", "SUCH AS")
		for _, n := range o.Nodes {
			t.Row(fmt.Sprintf("  %d", n.Nodes), checks[n.Check], strings.Join(n.Examples, ", "))
		}
		t.Flush()
	}
	return b.String()
}

// say formats the answer for people.
func (a *whatIf) say(job string) string {
	var b strings.Builder
	with := strings.Join(a.Suppose, " ")
	switch {
	case a.StartsNow && a.Preempts > 0:
		fmt.Fprintf(&b, "With %s, %s would get its places on %s; jobs to be preempted before: %d\n", with, job, strings.Join(a.NodeIDs, ", "), a.Preempts)
		return b.String()
	case a.StartsNow:
		fmt.Fprintf(&b, "With %s, %s would start now on %s\n", with, job, strings.Join(a.NodeIDs, ", "))
		return b.String()
	}
	fmt.Fprintf(&b, "With %s, %s would still wait: %s\n", with, job, render.Printable(a.Reason))
	switch {
	case a.EstimatedStart != nil && a.StartsAfter != "":
		fmt.Fprintf(&b, "It would start at %s at the earliest, when %s ends\n", a.EstimatedStart.UTC().Format(time.RFC3339), a.StartsAfter)
	case a.EstimatedStart != nil:
		fmt.Fprintf(&b, "It would start at %s at the earliest\n", a.EstimatedStart.UTC().Format(time.RFC3339))
	case a.StartsAfter != "":
		fmt.Fprintf(&b, "It would start when %s ends, at an unknown time\n", a.StartsAfter)
	}
	b.WriteString(facts(a.Obstacles, []string{a.Reason}))
	return b.String()
}
