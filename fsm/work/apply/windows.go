package apply

import (
	"cmp"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

func putWindow(tx *tx, c *windows.Put) any {
	if err := c.Validate(tx.now); err != nil {
		return windows.Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadWindow, err.Error())}
	}
	if _, there := tx.Window(c.Name); there {
		return windows.Result{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.WindowThere, c.Name)}
	}
	if tx.WindowCount() >= windows.Max {
		return windows.Result{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyWindows, windows.Max)}
	}
	w := &windows.Window{
		Name: c.Name, Kind: c.Kind, From: max(c.From, tx.now), Until: c.Until, Reason: c.Reason, Tenant: c.Tenant, GPUs: c.GPUs,
		CreatedBy: c.By, CreatedAt: tx.now, Revision: tx.index,
	}
	var r *kernel.Refusal
	if c.Kind == windows.Maintenance {
		r = tx.takeNodes(w, c)
	} else {
		r = tx.reserveNodes(w, c)
	}
	if r != nil {
		return windows.Result{Refusal: r}
	}
	slices.Sort(w.Nodes)
	tx.PutWindow(w)
	tx.emitWindow(w)
	return windows.Result{Window: w}
}

// emitWindow tells of a reservation only its tenant, of a maintenance all.
func (tx *tx) emitWindow(w *windows.Window) {
	tx.emit(event.Event{Topic: event.TopicWindow, Tenant: w.Tenant, Name: w.Name})
}

// meeting returns a window that a node is in while another one lasts; nil: there is none.
func (tx *tx) meeting(node string, w *windows.Window) *windows.Window {
	for other := range tx.WindowsOn(node) {
		if other.Meets(w.From, w.Until) {
			return other
		}
	}
	return nil
}

// takeNodes gives a maintenance all nodes that it names.
func (tx *tx) takeNodes(w *windows.Window, c *windows.Put) *kernel.Refusal {
	for n := range tx.Nodes() {
		if !windows.Matches(c.Patterns, n.ID) {
			continue
		}
		if other := tx.meeting(n.ID, w); other != nil {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.WindowsMeet, n.ID, other.Name)
		}
		w.Nodes = append(w.Nodes, tx.entry.Intern(n.ID))
	}
	if len(w.Nodes) == 0 {
		return kernel.Refuse(kernel.CodeNotFound, reason.NoNodeMatches)
	}
	return nil
}

// reserveNodes gives a reservation whole nodes, as few as have its GPUs. A node on which a job may still run when it begins,
// and may not be preempted, would break the promise. Those with the fewest tasks are taken first.
func (tx *tx) reserveNodes(w *windows.Window, c *windows.Put) *kernel.Refusal {
	var able []*work.Node
	for n := range tx.Nodes() {
		if windows.Matches(c.Patterns, n.ID) && windows.GPUsOf(n, c.GPUType) > 0 && n.Drain == nil && n.UnreachableSince == 0 &&
			tx.meeting(n.ID, w) == nil && tx.emptyBy(n.ID, w) {
			able = append(able, n)
		}
	}
	slices.SortStableFunc(able, func(a, b *work.Node) int {
		return cmp.Or(cmp.Compare(windows.GPUsOf(b, c.GPUType), windows.GPUsOf(a, c.GPUType)), cmp.Compare(tx.InUse(a.ID).Tasks, tx.InUse(b.ID).Tasks))
	})
	have := 0
	for _, n := range able {
		if have >= int(c.GPUs) {
			break
		}
		have += windows.GPUsOf(n, c.GPUType)
		w.Nodes = append(w.Nodes, tx.entry.Intern(n.ID))
	}
	if have < int(c.GPUs) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.TooFewToReserve, c.GPUs, have)
	}
	return nil
}

// emptyBy says whether no job of others runs on a node when a reservation begins that may not be asked to leave.
func (tx *tx) emptyBy(node string, w *windows.Window) bool {
	for l := range tx.LeasesOn(node) {
		j, ok := tx.Job(l.Job)
		switch {
		case !ok || j.Tenant == w.Tenant || windows.Yields(j):
		case j.MaxRuntime > 0 && max(j.StartedAt, l.GrantedAt)+j.MaxRuntime+windows.Slack <= w.From:
		default:
			return false
		}
	}
	return true
}

func deleteWindow(tx *tx, c *windows.Delete) any {
	w, ok := tx.Window(c.Name)
	if !ok || w.Kind != c.Kind {
		return windows.Result{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoWindow, c.Name)}
	}
	tx.endWindow(w)
	return windows.Result{}
}

// kept says why a window keeps a node from a job; nil: none does.
func (tx *tx) kept(j *work.Job, node string) *kernel.Refusal {
	for w := range tx.WindowsOn(node) {
		if !w.Admits(j, tx.now) {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeKept, node, w.Name)
		}
	}
	return nil
}

// turnWindows begins and ends the windows whose time has come.
func (tx *tx) turnWindows() {
	for w := tx.DueWindow(tx.now); w != nil; w = tx.DueWindow(tx.now) {
		if w.Begun || w.Until <= tx.now {
			tx.endWindow(w)
		} else {
			tx.beginWindow(w)
		}
	}
}

func (tx *tx) beginWindow(old *windows.Window) {
	w := *old
	w.Begun = true
	for _, id := range w.Nodes {
		n, ok := tx.Node(id)
		switch {
		case !ok:
		case w.Kind == windows.Reservation:
			tx.clear(id, v1.StopReason_PREEMPT, reason.New(reason.NodeReserved), func(j *work.Job) bool { return j.Tenant != w.Tenant && windows.Yields(j) })
		default:
			if n.Drain == nil {
				drained := *n
				drained.Drain = &work.Drain{Since: tx.now, Reason: reason.New(reason.UnderMaintenance, w.Name)}
				drained.Reason = work.DrainReason(drained.Drain)
				tx.saveNode(n, &drained)
				w.Drained = append(w.Drained, id)
			}
			tx.clear(id, v1.StopReason_DRAIN, reason.New(reason.UnderMaintenance, w.Name), func(j *work.Job) bool { return !j.Retry.Never })
		}
	}
	tx.PutWindow(&w)
	tx.emitWindow(&w)
}

// clear asks the jobs on a node that must leave to stop, unless they are stopping already.
func (tx *tx) clear(node string, stop v1.StopReason_Value, why reason.Reason, leaves func(*work.Job) bool) {
	for _, k := range tx.tasksOn(node) {
		old, ok := tx.Job(k.Job)
		if !ok || old.Stop != v1.StopReason_UNSPECIFIED || !leaves(old) {
			continue
		}
		j := *old
		tx.askToStop(&j, stop, j.Grace, why)
		tx.saveJob(old, &j)
	}
}

// endWindow ends a window, and enables the nodes that it has drained.
func (tx *tx) endWindow(w *windows.Window) {
	tx.DropWindow(w)
	for _, id := range w.Drained {
		n, ok := tx.Node(id)
		if !ok || n.Drain == nil || n.Drain.Reason != reason.New(reason.UnderMaintenance, w.Name) {
			continue // An operator has decided otherwise since.
		}
		on := *n
		on.Drain, on.EnabledAt = nil, tx.index
		if on.UnreachableSince == 0 {
			on.Reason = ""
		}
		tx.saveNode(n, &on)
	}
	tx.emitWindow(w)
}

// What the audit log calls the commands.
var (
	auditOfPut = map[windows.Kind]access.AuditAction{
		windows.Maintenance: access.DefineAction(60, "maintenance.put", access.AboutOperation),
		windows.Reservation: access.DefineAction(61, "reservation.put", access.AboutOperation),
	}
	auditOfDelete = map[windows.Kind]access.AuditAction{
		windows.Maintenance: access.DefineAction(62, "maintenance.delete", access.AboutOperation),
		windows.Reservation: access.DefineAction(63, "reservation.delete", access.AboutOperation),
	}
)

func auditPutWindow(tx *kernel.Tx, c *windows.Put, result any) {
	if action, ok := auditOfPut[c.Kind]; ok {
		r := access.AuditRecord{Action: action, Object: c.Name, Message: reason.Text(c.Reason)}
		access.Record(tx, c.Actor, r, result.(windows.Result).Refusal)
	}
}

func auditDeleteWindow(tx *kernel.Tx, c *windows.Delete, result any) {
	if action, ok := auditOfDelete[c.Kind]; ok {
		access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.Name}, result.(windows.Result).Refusal)
	}
}
