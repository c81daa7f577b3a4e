package fsm

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/catalog"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/scheduleverbs"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// Domains is the one list.
func Domains() []kernel.Domain {
	return []kernel.Domain{
		workDomain(),
		schedules.Domain(scheduleverbs.Verbs(), func(s *kernel.State) schedules.Jobs { return tables.Of(s) }),
		cores.Domain(coreverbs.Verbs()),
		executions.Domain(executionverbs.Verbs(), executionverbs.Tick, jobStands),
		flows.Domain(flowverbs.Verbs()),
		coordinators.Domain(),
		access.Tokens(),
		access.Sessions(),
		access.Audit(),
		catalog.Domain(),
		once.Domain(),
	}
}

// View is the state as of one log index. It never changes, costs no lock to read, and may be kept for as long as anybody
// likes.
type View struct {
	*kernelView
	*workView
	coordinatorsView
	accessView
	catalogView
	schedulesView
	coresView
	executionsView
	flowsView
	onceView
}

// Each domain calls what it has to read a View.
type (
	kernelView       = kernel.View
	workView         = tables.View
	coordinatorsView = coordinators.View
	accessView       = access.View
	catalogView      = catalog.View
	schedulesView    = schedules.View
	coresView        = cores.View
	executionsView   = executions.View
	flowsView        = flows.View
	onceView         = once.View
)

// Machine applies log entries.
type Machine = kernel.Machine[View, event.Event]

// registry has the records and commands of the domains.
var registry = kernel.Register(Domains()...)

// New returns a Machine in the state before the first log entry.
func New() *Machine { return kernel.New(Composition(registry)) }

// Composition makes a machine of the domains of a registry. They have to include those of this package.
func Composition(r *kernel.Registry) kernel.Config[View, event.Event] {
	return kernel.Config[View, event.Event]{
		Registry: r,
		View: func(v *kernel.View) *View {
			return &View{
				v, tables.ViewOf(v), coordinators.ViewOf(v), access.ViewOf(v), catalog.ViewOf(v), schedules.ViewOf(v),
				cores.ViewOf(v), executions.ViewOf(v), flows.ViewOf(v), once.ViewOf(v),
			}
		},
		Restored: func(index uint64) event.Event { return event.Event{Index: index, Topic: event.TopicState} },
	}
}

// Check says what does not hold of a state that always should. Empty: all is well. It walks over everything.
func Check(v *View) []string { return kernel.Check(v.kernelView) }

// CheckEntry says whether this version can apply a log entry, without applying it.
func CheckEntry(data []byte) error { return registry.CheckEntry(data) }

// HashFormat names what View.Hash is taken of: the kinds of rows and their fields. Hashes of replicas that run different
// versions of mind can be compared only if it is the same for both.
func HashFormat() string { return registry.HashFormat() }
