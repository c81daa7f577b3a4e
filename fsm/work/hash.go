package work

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
)

func (s Shape) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(s.Nodes)<<48 | uint64(s.GPUs)<<32 | uint64(s.FractionMilli)<<16 | uint64(s.Topology))
	f = f.Num(uint64(s.GPUMemMB)<<32 | uint64(s.CPUs)).Num(uint64(s.MemMB))
	f = f.Text(s.GPUType).Text(s.Selector)
	return f.Num(uint64(s.Between)<<32 | uint64(s.Segment)).Text(s.Level).Text(s.Exclude).Flag(s.Loose)
}

func (j *Job) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(j.ID)).Text(j.Tenant).Text(j.User).Text(j.Name).Text(j.Queue).Num(uint64(j.Priority))
	f = j.Shape.AppendFields(f.Bytes(j.Spec)).Labels(j.Labels)
	f = f.Num(uint64(j.Retry.Max)<<8 | uint64(j.Retry.On)).Flag(j.Retry.Never).Flag(j.Preemptible)
	f = f.Int(j.MaxRuntime).Int(j.LostAfter).Int(j.GiveUpAfter).Int(j.Grace).Int(j.NotBefore)
	f = f.Num(uint64(len(j.Dependencies)))
	for _, d := range j.Dependencies {
		f = f.Num(uint64(d.Job)).Num(uint64(d.When))
	}
	f = f.Num(uint64(j.State)<<32 | uint64(uint32(j.Phase))).Num(uint64(j.Held)).Text(string(j.Reason))
	f = f.Num(uint64(j.Attempt)).Num(j.Token).Num(uint64(len(j.Tasks)))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		f = f.Num(uint64(t.Rank)<<32 | uint64(uint32(t.State))).Text(t.Node).Num(t.GPUs)
		f = f.Optional(t.ExitCode).Num(uint64(t.ErrorType)).Text(string(t.ErrorMessage)).Int(t.StartedAt).Int(t.EndedAt).Text(t.Transfer)
	}
	f = f.Num(uint64(j.Stop)).Int(j.StopGrace)
	if e := j.Ending; e == nil {
		f = f.Flag(false)
	} else {
		f = f.Flag(true).Num(uint64(e.Rank)).Text(e.Node).Optional(e.ExitCode).Num(uint64(e.ErrorType)).Text(string(e.ErrorMessage))
		f = lossFields(f, e.Loss)
	}
	f = f.Num(uint64(len(j.Past)))
	for i := range j.Past {
		p := &j.Past[i]
		f = f.Num(uint64(p.Attempt)).Num(p.Token).Num(uint64(len(p.Nodes)))
		for _, n := range p.Nodes {
			f = f.Text(n)
		}
		f = f.Optional(p.ExitCode).Num(uint64(p.ErrorType)).Text(string(p.Reason)).Int(p.StartedAt).Int(p.EndedAt)
		f = lossFields(f.Text(p.FailedNode), p.Loss)
	}
	r := &j.Retries
	f = f.Num(uint64(r.NodeLost)<<32 | uint64(r.GPUFault)).Num(uint64(r.LaunchFailed)<<32 | uint64(r.DataFetch))
	f = f.Num(uint64(r.Exit)<<32 | uint64(r.Preempted)).Num(uint64(r.Drained))
	f = f.Optional(j.ExitCode).Num(uint64(j.ErrorType)).Text(string(j.ErrorMessage))
	f = f.Int(j.Progress.Step).Int(j.Progress.Total).Num(uint64(j.ResumeFrom)).Num(uint64(j.LastCheckpoint))
	f = f.Int(j.CreatedAt).Int(j.StartedAt).Int(j.FinishedAt).Int(j.UpdatedAt)
	f = f.Num(j.Created).Num(j.Revision)
	f = f.Num(uint64(j.RetriedAt)<<32 | uint64(j.ChosenAt)).Num(uint64(len(j.Awaits)))
	for i := range j.Awaits {
		a := &j.Awaits[i]
		f = f.Text(a.Node).Num(uint64(a.Attempt)<<32 | uint64(a.Rank)).Num(a.Token).Num(a.Roster)
		f = a.Loss.AppendFields(f)
	}
	s := &j.Streak
	f = f.Num(uint64(s.Restarts)<<32 | uint64(s.Fruitless)).Int(s.After).Int(s.Best).Flag(s.Gained)
	f = f.Bytes(j.Credentials).Int(j.SettlesAt).Num(uint64(j.Scores)).Num(uint64(j.MaxParallel)).Flag(j.Keep).Int(j.Notice)
	f = j.Retention.AppendFields(f.Num(uint64(j.Term)))
	f = f.Flag(j.Array != nil)
	if j.Array != nil {
		f = j.Array.AppendFields(f)
	}
	if j.GoOn { // of a later level than the other fields: without it the hash is theirs
		f = f.Flag(true)
	}
	if j.Notices != nil {
		f = j.Notices.AppendFields(f)
	}
	if j.SpecDropped {
		f = f.Text("spec dropped")
	}
	return f
}

func lossFields(f kernel.Fields, l *Loss) kernel.Fields {
	if l == nil {
		return f.Flag(false)
	}
	return l.AppendFields(f.Flag(true))
}

func (l *Loss) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Num(uint64(l.How)<<32 | uint64(l.Votes)<<16 | uint64(l.Voters)).Int(l.Silent)
}

func (l *Lease) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(l.Job)).Num(uint64(l.Rank)).Num(uint64(l.Attempt)).Text(l.Node).Num(l.GPUs)
	f = f.Num(uint64(l.FractionMilli)).Num(uint64(l.CPUs)<<32 | uint64(l.MemMB))
	return f.Num(l.Token).Int(l.GrantedAt)
}

func (n *Node) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(n.ID).Text(n.Hostname).Text(n.BootID).Text(n.AgentVersion).Text(n.GRPCAddr).Text(n.HTTPAddr)
	f = f.Num(uint64(len(n.GPUs)))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		f = f.Text(g.UUID).Num(uint64(g.Index)).Text(g.Model).Text(g.Type).Num(uint64(g.MemMB)).Text(g.PCI)
		f = f.Int(int64(g.NUMA)).Num(g.NVLink).Num(uint64(g.Health)).Text(string(g.HealthReason)).Flag(g.Simulated)
		if g.MIG != "" {
			f = f.Text(g.MIG).Text(g.Instance)
		}
	}
	f = f.Num(uint64(n.CPUs)<<32 | uint64(n.MemMB)).Labels(n.Labels).Num(uint64(n.State)).Text(string(n.Reason))
	if d := n.Drain; d == nil {
		f = f.Flag(false)
	} else {
		f = f.Flag(true).Int(d.Since).Int(d.Deadline).Flag(d.Force).Text(string(d.Reason))
	}
	f = f.Int(n.RegisteredAt).Int(n.UpdatedAt).Num(n.Revision).Int(n.UnreachableSince)
	f = f.Num(n.Incarnation).Num(n.RosterSince).Num(n.RosterAcked).Num(n.EnabledAt).Int(n.LostSince)
	return f.Flag(n.Unheard).Flag(n.Archive).Text(string(n.Unfit))
}

func (q *Queue) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(q.Name).Num(uint64(q.Weight)).Int(q.CreatedAt).Int(q.UpdatedAt).Num(q.Revision)
	f = f.Num(uint64(q.MaxGPUs)).Text(q.Parent).Num(q.Moved).Num(uint64(q.Guaranteed))
	return q.MaxByType.AppendFields(f)
}

func (q *Quota) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(q.Tenant).Optional(q.MaxGPUs).Optional(q.MaxRunning).Optional(q.MaxJobs)
	f = f.Text(q.UpdatedBy).Int(q.UpdatedAt).Num(q.Revision)
	f = q.MaxByType.AppendFields(f.Optional(q.MaxGPUHours))
	if q.MaxSubmissions != nil || q.MaxSpecMB != nil { // of a later level than the other fields: without them the hash is theirs
		f = f.Optional(q.MaxSubmissions).Optional(q.MaxSpecMB)
	}
	return f
}
