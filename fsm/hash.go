package fsm

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// fields is the stream of a row's fields that its hash is taken of. It is injective (fixed widths, lengths before
// text), and made by hand because it is made for every change: reflection would cost more than all the rest of it.
// hash_test.go holds that every field of every row is in it.
type fields []byte

func (f fields) num(v uint64) fields { return binary.LittleEndian.AppendUint64(f, v) }

func (f fields) int(v int64) fields { return f.num(uint64(v)) }

func (f fields) text(s string) fields { return append(f.num(uint64(len(s))), s...) }

func (f fields) bytes(b []byte) fields { return append(f.num(uint64(len(b))), b...) }

func (f fields) flag(b bool) fields {
	if b {
		return append(f, 1)
	}
	return append(f, 0)
}

func (f fields) optional(v *int32) fields {
	if v == nil {
		return append(f, 0)
	}
	return append(f, 1).int(int64(*v))
}

// labels adds a map as the sum of the hashes of its pairs, which no order can change.
func (f fields) labels(m map[string]string) fields {
	var sum uint64
	end := len(f)
	for k, v := range m { // order-free: a sum
		f = f[:end].text(k).text(v)
		sum += xxhash.Sum64(f[end:])
	}
	return f[:end].num(uint64(len(m))).num(sum)
}

func (s Shape) appendFields(f fields) fields {
	f = f.num(uint64(s.Nodes)<<48 | uint64(s.GPUs)<<32 | uint64(s.FractionMilli)<<16 | uint64(s.Topology))
	f = f.num(uint64(s.GPUMemMB)<<32 | uint64(s.CPUs)).num(uint64(s.MemMB))
	return f.text(s.GPUType).text(s.Selector)
}

func (j *Job) appendFields(f fields) fields {
	f = f.num(uint64(j.ID)).text(j.Tenant).text(j.User).text(j.Name).text(j.Queue).num(uint64(j.Priority))
	f = j.Shape.appendFields(f.bytes(j.Spec)).labels(j.Labels)
	f = f.num(uint64(j.Retry.Max)<<8 | uint64(j.Retry.On)).flag(j.Preemptible)
	f = f.int(j.MaxRuntime).int(j.LostAfter).int(j.GiveUpAfter).int(j.Grace).int(j.NotBefore)
	f = f.num(uint64(len(j.Dependencies)))
	for _, d := range j.Dependencies {
		f = f.num(uint64(d.Job)).num(uint64(d.When))
	}
	f = f.num(uint64(j.State)<<32 | uint64(uint32(j.Phase))).num(uint64(j.Held)).text(j.Reason)
	f = f.num(uint64(j.Attempt)).num(j.Token).num(uint64(len(j.Tasks)))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		f = f.num(uint64(t.Rank)<<32 | uint64(uint32(t.State))).text(t.Node).num(t.GPUs)
		f = f.optional(t.ExitCode).num(uint64(t.ErrorType)).text(t.ErrorMessage).int(t.StartedAt).int(t.EndedAt)
	}
	f = f.num(uint64(j.Stop)).int(j.StopGrace)
	if e := j.Ending; e == nil {
		f = f.flag(false)
	} else {
		f = f.flag(true).num(uint64(e.Rank)).text(e.Node).optional(e.ExitCode).num(uint64(e.ErrorType)).text(e.ErrorMessage)
	}
	f = f.num(uint64(len(j.Past)))
	for i := range j.Past {
		p := &j.Past[i]
		f = f.num(uint64(p.Attempt)).num(p.Token).num(uint64(len(p.Nodes)))
		for _, n := range p.Nodes {
			f = f.text(n)
		}
		f = f.optional(p.ExitCode).num(uint64(p.ErrorType)).text(p.Reason).int(p.StartedAt).int(p.EndedAt)
	}
	r := &j.Retries
	f = f.num(uint64(r.NodeLost)<<32 | uint64(r.GPUFault)).num(uint64(r.LaunchFailed)<<32 | uint64(r.DataFetch))
	f = f.num(uint64(r.Exit)<<32 | uint64(r.Preempted)).num(uint64(r.Drained))
	f = f.optional(j.ExitCode).num(uint64(j.ErrorType)).text(j.ErrorMessage)
	f = f.int(j.Progress.Step).int(j.Progress.Total).num(uint64(j.ResumeFrom)).num(uint64(j.LastCheckpoint))
	f = f.int(j.CreatedAt).int(j.StartedAt).int(j.FinishedAt).int(j.UpdatedAt)
	f = f.num(j.Created).num(j.Revision)
	if j.hasLaterFields() {
		f = j.appendLaterFields(f)
	}
	if len(j.Credentials) > 0 {
		f = f.bytes(j.Credentials)
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.Transfer != "" {
			f = f.num(uint64(i)).text(t.Transfer)
		}
	}
	if j.Retry.Never || j.RetryRules != AllCausesCount {
		f = f.flag(j.Retry.Never).num(uint64(j.RetryRules))
	}
	if j.SettlesAt != 0 {
		f = f.int(j.SettlesAt)
	}
	if s := &j.Streak; *s != (Streak{}) {
		f = f.num(uint64(s.Restarts)<<32 | uint64(s.Fruitless)).int(s.After).int(s.Best).flag(s.Gained)
	}
	return f
}

// hasLaterFields says whether anything is set that the first version of the state did not have. Such fields follow after
// the others, all of them or none, so that a row without them has the hash that the first version gave it.
func (j *Job) hasLaterFields() bool {
	if len(j.Awaits) > 0 || j.RetriedAt != 0 || j.ChosenAt != 0 || j.Ending != nil && j.Ending.Loss != nil {
		return true
	}
	for i := range j.Past {
		if j.Past[i].FailedNode != "" || j.Past[i].Loss != nil {
			return true
		}
	}
	return false
}

func (j *Job) appendLaterFields(f fields) fields {
	f = f.num(uint64(j.RetriedAt)<<32 | uint64(j.ChosenAt)).num(uint64(len(j.Awaits)))
	for i := range j.Awaits {
		a := &j.Awaits[i]
		f = f.text(a.Node).num(uint64(a.Attempt)<<32 | uint64(a.Rank)).num(a.Token).num(a.Roster)
		f = a.Loss.appendFields(f)
	}
	if j.Ending != nil {
		f = f.loss(j.Ending.Loss)
	}
	for i := range j.Past {
		f = f.text(j.Past[i].FailedNode).loss(j.Past[i].Loss)
	}
	return f
}

func (f fields) loss(l *Loss) fields {
	if l == nil {
		return f.flag(false)
	}
	return l.appendFields(f.flag(true))
}

func (l *Loss) appendFields(f fields) fields {
	return f.num(uint64(l.How)<<32 | uint64(l.Votes)<<16 | uint64(l.Voters)).int(l.Silent)
}

func (r *classReason) appendFields(f fields) fields {
	f = r.Class.Shape.appendFields(f.text(r.Class.Queue)).text(r.Reason)
	if r.Class.Own != 0 || r.Class.Tenant != "" {
		f = f.num(uint64(r.Class.Own))
	}
	if r.Class.Tenant != "" {
		f = f.text(r.Class.Tenant)
	}
	return f
}

func (l *Lease) appendFields(f fields) fields {
	f = f.num(uint64(l.Job)).num(uint64(l.Rank)).num(uint64(l.Attempt)).text(l.Node).num(l.GPUs)
	f = f.num(uint64(l.FractionMilli)).num(uint64(l.CPUs)<<32 | uint64(l.MemMB))
	return f.num(l.Token).int(l.GrantedAt)
}

func (n *Node) appendFields(f fields) fields {
	f = f.text(n.ID).text(n.Hostname).text(n.BootID).text(n.AgentVersion).text(n.GRPCAddr).text(n.HTTPAddr)
	f = f.num(uint64(len(n.GPUs)))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		f = f.text(g.UUID).num(uint64(g.Index)).text(g.Model).text(g.Type).num(uint64(g.MemMB)).text(g.PCI)
		f = f.int(int64(g.NUMA)).num(g.NVLink).num(uint64(g.Health)).text(g.HealthReason).flag(g.Simulated)
	}
	f = f.num(uint64(n.CPUs)<<32 | uint64(n.MemMB)).labels(n.Labels).num(uint64(n.State)).text(n.Reason)
	if d := n.Drain; d == nil {
		f = f.flag(false)
	} else {
		f = f.flag(true).int(d.Since).int(d.Deadline).flag(d.Force).text(d.Reason)
	}
	f = f.int(n.RegisteredAt).int(n.UpdatedAt).num(n.Revision).int(n.UnreachableSince)
	if n.Incarnation|n.RosterSince|n.RosterAcked|n.EnabledAt|uint64(n.LostSince) != 0 {
		f = f.num(n.Incarnation).num(n.RosterSince).num(n.RosterAcked).num(n.EnabledAt).int(n.LostSince)
	}
	if n.Unheard {
		f = f.flag(true)
	}
	return f
}

func (g *gpuModel) appendFields(f fields) fields { return f.text(g.Model).text(g.Type) }

func (q *Queue) appendFields(f fields) fields {
	f = f.text(q.Name).num(uint64(q.Weight)).int(q.CreatedAt).int(q.UpdatedAt).num(q.Revision)
	if q.MaxGPUs != 0 {
		f = f.num(uint64(q.MaxGPUs))
	}
	return f
}

func (c *Checkpoint) appendFields(f fields) fields {
	f = f.num(uint64(c.ID)).num(uint64(c.Job)).text(c.Tenant).num(uint64(c.Attempt)).num(c.Token).num(uint64(c.Rank))
	f = f.text(c.Node).int(c.Step).text(c.Path).text(c.Digest).int(c.SizeBytes).text(c.Metrics)
	return f.int(c.CreatedAt)
}

func (k *idempotencyKey) appendFields(f fields) fields {
	f = f.text(k.Tenant).text(k.Key).num(k.Fingerprint).num(uint64(k.Job)).num(uint64(k.Action))
	return f.int(k.ExpiresAt)
}

func (c *Coordinator) appendFields(f fields) fields {
	return f.text(c.ID).text(c.RaftAddr).text(c.GRPCAddr).text(c.HTTPAddr).text(c.GossipAddr)
}

func (m *meta) appendFields(f fields) fields {
	f = f.int(m.Now).num(m.Considered).num(m.Fenced).num(m.Dropped).num(uint64(m.KeepFinished))
	f = f.num(m.VotersIndex).num(uint64(len(m.Voters)))
	for _, v := range m.Voters {
		f = f.text(v)
	}
	if m.RosterVersion|m.NodesLost|m.Incomplete|m.Second != 0 {
		f = f.num(m.RosterVersion).num(m.NodesLost).num(m.Incomplete).num(m.Second)
	}
	if m.KeepAudit != 0 {
		f = f.num(uint64(m.KeepAudit))
	}
	if m.Recovered != 0 {
		f = f.num(m.Recovered).int(m.RecoveredAt)
	}
	return f
}
