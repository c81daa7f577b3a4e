package windows

import (
	"math"
	"math/bits"
	"path"
	"slices"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Kind is the purpose of a window.
type Kind uint8

// The kinds.
const (
	// Maintenance empties its nodes.
	Maintenance Kind = iota + 1
	// Reservation keeps its nodes for a tenant.
	Reservation
)

const (
	// Max is how many windows there are at a time.
	Max = 256
	// MaxText bounds each text of a window, in bytes.
	MaxText = 255
	// MaxAhead is how far ahead a window may end; nanoseconds.
	MaxAhead = 366 * 24 * 3600 * int64(1e9)
	// Slack is the time that a job may need beyond its time limit, to start and to stop; nanoseconds.
	Slack = 60 * int64(1e9)
)

// Window is a maintenance of some nodes, or their reservation for a tenant.
type Window struct {
	Name string `cbor:"1,keyasint,omitempty"`
	Kind Kind   `cbor:"2,keyasint,omitempty"`
	// From and Until are Unix nanoseconds of log time.
	From  int64 `cbor:"3,keyasint,omitempty"`
	Until int64 `cbor:"4,keyasint,omitempty"`
	// Nodes by id, sorted.
	Nodes []string `cbor:"5,keyasint,omitempty"`
	// Reason is the reason that the operator gave.
	Reason string `cbor:"6,keyasint,omitempty"`
	// Tenant has a reservation; GPUs is how many were asked for.
	Tenant string `cbor:"7,keyasint,omitempty"`
	GPUs   uint32 `cbor:"8,keyasint,omitempty"`
	// Begun: its nodes were drained, or freed of jobs that may be preempted.
	Begun bool `cbor:"9,keyasint,omitempty"`
	// Drained are the nodes that a maintenance has drained, and enables when it is over.
	Drained   []string `cbor:"10,keyasint,omitempty"`
	CreatedBy string   `cbor:"11,keyasint,omitempty"`
	CreatedAt int64    `cbor:"12,keyasint,omitempty"`
	Revision  uint64   `cbor:"13,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (w *Window) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(w.Name).Num(uint64(w.Kind)).Int(w.From).Int(w.Until)
	for _, nodes := range [][]string{w.Nodes, w.Drained} {
		f = f.Num(uint64(len(nodes)))
		for _, n := range nodes {
			f = f.Text(n)
		}
	}
	f = f.Text(w.Reason).Text(w.Tenant).Num(uint64(w.GPUs)).Flag(w.Begun)
	return f.Text(w.CreatedBy).Int(w.CreatedAt).Num(w.Revision)
}

// Turn is when the next thing about the window is due.
func (w *Window) Turn() int64 {
	if w.Begun {
		return w.Until
	}
	return w.From
}

// Has says whether a node is in the window.
func (w *Window) Has(node string) bool {
	_, ok := slices.BinarySearch(w.Nodes, node)
	return ok
}

// Admits says whether a job may be given places on the nodes of the window now.
func (w *Window) Admits(j *work.Job, now int64) bool {
	return w.admits(j.Tenant, Yields(j), j.MaxRuntime, now)
}

// AdmitsClass says whether every job of a class may be. A class names its tenant if that has a reservation.
func (w *Window) AdmitsClass(c *work.ClassKey, now int64) bool {
	return w.admits(c.Tenant, c.Term == work.TermYields, c.Term.Limit(), now)
}

func (w *Window) admits(tenant string, yields bool, limit, now int64) bool {
	switch {
	case now >= w.Until, w.Kind == Reservation && tenant == w.Tenant:
		return true
	case now >= w.From:
		return false
	}
	return yields || limit > 0 && now+limit+Slack <= w.From
}

// NextForClass is when the window may next admit a class otherwise than now, if it stays as it is; math.MaxInt64: never.
func (w *Window) NextForClass(c *work.ClassKey, now int64) int64 {
	next := int64(math.MaxInt64)
	for _, at := range [...]int64{w.From - c.Term.Limit() - Slack + 1, w.From, w.Until} {
		if at > now {
			next = min(next, at)
		}
	}
	return next
}

// Yields says whether a job may be stopped for a window: it goes on elsewhere.
func Yields(j *work.Job) bool { return j.Preemptible && !j.Retry.Never }

// Meets says whether the window lasts at any time between two.
func (w *Window) Meets(from, until int64) bool { return w.From < until && from < w.Until }

// Matches says whether the id of a node matches one of the patterns, which have * and ? as file names do. No pattern matches
// every node.
func Matches(patterns []string, node string) bool {
	if len(patterns) == 0 {
		return true
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, node)
		return ok && err == nil
	})
}

// GPUsOf is how many GPUs of a type a node has; empty: of any.
func GPUsOf(n *work.Node, gpuType string) int {
	var mask uint64
	for i := range n.GPUs {
		if g := &n.GPUs[i]; work.GPUMatches(g, &work.Shape{GPUType: gpuType}) {
			mask |= 1 << g.Index
		}
	}
	return bits.OnesCount64(mask)
}
