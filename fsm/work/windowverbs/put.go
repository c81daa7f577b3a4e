package windowverbs

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// PutWindow arranges a window. Nodes are chosen by it.
type PutWindow struct {
	Name  string       `cbor:"1,keyasint,omitempty"`
	Kind  windows.Kind `cbor:"2,keyasint,omitempty"`
	From  int64        `cbor:"3,keyasint,omitempty"`
	Until int64        `cbor:"4,keyasint,omitempty"`
	// Patterns are of ids of nodes. A maintenance takes all nodes that match; a reservation only from these, as many as it
	// needs for its GPUs.
	Patterns []string      `cbor:"5,keyasint,omitempty"`
	Reason   string        `cbor:"6,keyasint,omitempty"`
	Tenant   string        `cbor:"7,keyasint,omitempty"`
	GPUs     uint32        `cbor:"8,keyasint,omitempty"`
	GPUType  string        `cbor:"9,keyasint,omitempty"`
	By       string        `cbor:"10,keyasint,omitempty"`
	Actor    *access.Actor `cbor:"11,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutWindow) CommandNumber() uint16 { return 46 }

func init() { verbs.Add(lifecycle.Verb("PutWindow", putWindow, auditPutWindow)) }

// WindowResult is the window as it was put, or why nothing was done.
type WindowResult struct {
	Window  *windows.Window
	Refusal *kernel.Refusal
}

func putWindow(tx *lifecycle.Tx, c *PutWindow) WindowResult {
	if err := c.Validate(tx.Now); err != nil {
		return WindowResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadWindow, err.Error())}
	}
	if _, there := tx.Window(c.Name); there {
		return WindowResult{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.WindowThere, c.Name)}
	}
	if tx.WindowCount() >= windows.Max {
		return WindowResult{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyWindows, windows.Max)}
	}
	w := &windows.Window{
		Name: c.Name, Kind: c.Kind, From: max(c.From, tx.Now), Until: c.Until, Reason: c.Reason, Tenant: c.Tenant, GPUs: c.GPUs,
		CreatedBy: c.By, CreatedAt: tx.Now, Revision: tx.Index,
	}
	var r *kernel.Refusal
	if c.Kind == windows.Maintenance {
		r = takeNodes(tx, w, c)
	} else {
		r = reserveNodes(tx, w, c)
	}
	if r != nil {
		return WindowResult{Refusal: r}
	}
	slices.Sort(w.Nodes)
	tx.PutWindow(w)
	emitWindow(tx, w)
	return WindowResult{Window: w}
}

// emitWindow tells of a reservation only its tenant, of a maintenance all.
func emitWindow(tx *lifecycle.Tx, w *windows.Window) {
	tx.Emit(event.Event{Topic: event.TopicWindow, Tenant: w.Tenant, Name: w.Name})
}

// meeting returns a window that a node is in while another one lasts; nil: there is none.
func meeting(tx *lifecycle.Tx, node string, w *windows.Window) *windows.Window {
	for other := range tx.WindowsOn(node) {
		if other.Meets(w.From, w.Until) {
			return other
		}
	}
	return nil
}

// takeNodes gives a maintenance all nodes that it names.
func takeNodes(tx *lifecycle.Tx, w *windows.Window, c *PutWindow) *kernel.Refusal {
	for n := range tx.Nodes() {
		if !windows.Matches(c.Patterns, n.ID) {
			continue
		}
		if other := meeting(tx, n.ID, w); other != nil {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.WindowsMeet, n.ID, other.Name)
		}
		w.Nodes = append(w.Nodes, tx.Entry.Intern(n.ID))
	}
	if len(w.Nodes) == 0 {
		return kernel.Refuse(kernel.CodeNotFound, reason.NoNodeMatches)
	}
	return nil
}

// reserveNodes gives a reservation whole nodes, as few as have its GPUs. A node on which a job may still run when it begins,
// and may not be preempted, would break the promise. Those with the fewest tasks are taken first.
func reserveNodes(tx *lifecycle.Tx, w *windows.Window, c *PutWindow) *kernel.Refusal {
	var able []*work.Node
	for n := range tx.Nodes() {
		if windows.Matches(c.Patterns, n.ID) && windows.GPUsOf(n, c.GPUType) > 0 && n.Drain == nil && n.UnreachableSince == 0 &&
			meeting(tx, n.ID, w) == nil && emptyBy(tx, n.ID, w) {
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
		w.Nodes = append(w.Nodes, tx.Entry.Intern(n.ID))
	}
	if have < int(c.GPUs) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.TooFewToReserve, c.GPUs, have)
	}
	return nil
}

// emptyBy says whether no job of others runs on a node when a reservation begins that may not be asked to leave.
func emptyBy(tx *lifecycle.Tx, node string, w *windows.Window) bool {
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

// Validate says what is wrong with the command itself, whatever the state is.
func (c *PutWindow) Validate(now int64) error {
	texts := append([]string{c.Name, c.Reason, c.Tenant, c.GPUType, c.By}, c.Patterns...)
	for _, text := range texts {
		if len(text) > windows.MaxText {
			return fmt.Errorf("a text has %d bytes, and at most %d are kept", len(text), windows.MaxText)
		}
	}
	for _, p := range c.Patterns {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("the pattern %q is not valid: use * and ? as in names of files", p)
		}
	}
	switch {
	case c.Name == "":
		return fmt.Errorf("it has no name")
	case c.Kind != windows.Maintenance && c.Kind != windows.Reservation:
		return fmt.Errorf("%d is no kind of window", c.Kind)
	case len(c.Patterns) > windows.Max:
		return fmt.Errorf("it has %d patterns of nodes, and at most %d are taken", len(c.Patterns), windows.Max)
	case c.Until <= c.From:
		return fmt.Errorf("it ends before it begins")
	case c.Until <= now:
		return fmt.Errorf("it ends in the past")
	case c.Until > now+windows.MaxAhead:
		return fmt.Errorf("it ends more than a year ahead")
	case c.Kind == windows.Maintenance && len(c.Patterns) == 0:
		return fmt.Errorf("it names no nodes")
	case c.Kind == windows.Maintenance && (c.Tenant != "" || c.GPUs != 0):
		return fmt.Errorf("a maintenance is for no tenant and takes whole nodes")
	case c.Kind == windows.Reservation && c.Tenant == "":
		return fmt.Errorf("it is for no tenant")
	case c.Kind == windows.Reservation && c.GPUs == 0:
		return fmt.Errorf("it reserves no GPUs")
	}
	return nil
}

// auditOfPut has the action in the audit log of a new window, by kind.
var auditOfPut = map[windows.Kind]access.AuditAction{
	windows.Maintenance: access.DefineAction(60, "maintenance.put", access.AboutOperation),
	windows.Reservation: access.DefineAction(61, "reservation.put", access.AboutOperation),
}

func auditPutWindow(tx *kernel.Tx, c *PutWindow, result WindowResult) {
	if action, ok := auditOfPut[c.Kind]; ok {
		r := access.AuditRecord{Action: action, Object: c.Name, Message: reason.Text(c.Reason)}
		access.Record(tx, c.Actor, r, result.Refusal)
	}
}
