package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/gpus"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
	"github.com/mindcoordinator/mind/fsm/work/keys"
	"github.com/mindcoordinator/mind/fsm/work/owed"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/results"
	"github.com/mindcoordinator/mind/fsm/work/waiting"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// The numbers of the kinds of rows that have no package of their own: append-only, never reused, never changed.
const (
	recordNode  = 10
	recordQueue = 20
	recordJob   = 30
	recordLease = 40
	recordQuota = 100
)

// rows are all tables of the aggregate, and what is read of them. A View holds frozen ones.
type rows struct {
	checkpoints.Tables
	claims.Book
	windows.Register
	promises.Ledger
	budgets.Meter
	keys.Ring
	policy.Table
	accounts.Bank
	waiting.Lists
	figures.Sums
	gpus.Models
	results.Sheet
	owed.Board
	meta   *work.Meta
	jobs   jobTables
	leases leaseTables
	nodes  nodeTables
	queues queueTables
	quotas quotaTables
	typed  typedTables
}

// State is the tables that are worked on, with what keeps them in step.
type State struct {
	rows
	kernel *kernel.State
	// work is nil in a frozen state.
	work *working
}

func Open(s *kernel.State) kernel.Part {
	return &State{
		kernel: s, work: newWorking(),
		rows: rows{
			meta: s.Meta().(*work.Meta), jobs: newJobTables(), leases: newLeaseTables(), nodes: newNodeTables(), queues: newQueueTables(),
			Tables: checkpoints.NewTables(), Book: claims.NewBook(), Register: windows.NewRegister(), Ledger: promises.NewLedger(),
			Meter: budgets.NewMeter(), Ring: keys.NewRing(), Table: policy.NewTable(), Bank: accounts.NewBank(), Lists: waiting.New(),
			Sums: figures.New(), Models: gpus.NewModels(), Sheet: results.NewSheet(), Board: owed.NewBoard(), quotas: newQuotaTables(), typed: newTypedTables(),
		},
	}
}

// Freeze implements kernel.Part.
func (s *State) Freeze(to *kernel.State) kernel.Part {
	s.flush()
	return &State{kernel: to, rows: rows{
		meta: to.Meta().(*work.Meta), jobs: s.jobs.freeze(), leases: s.leases.freeze(), nodes: s.nodes.freeze(), queues: s.queues.freeze(),
		Tables: checkpoints.Freeze(&s.Tables), Book: claims.Freeze(&s.Book), Register: windows.Freeze(&s.Register), Ledger: promises.Freeze(&s.Ledger),
		Meter: budgets.Freeze(&s.Meter), Ring: keys.Freeze(&s.Ring), Table: policy.Freeze(&s.Table), Bank: accounts.Freeze(&s.Bank),
		Lists: waiting.Freeze(&s.Lists), Sums: figures.Freeze(&s.Sums), Models: gpus.Freeze(&s.Models), Sheet: results.Freeze(&s.Sheet), Board: owed.Freeze(&s.Board),
		quotas: s.quotas.freeze(), typed: s.typed.freeze(),
	}}
}

func Of(s *kernel.State) *State { return kernel.PartOf[*State](s) }

// ViewOf returns what there is to read of a view.
func ViewOf(v *kernel.View) *View {
	s := Of(v.State())
	return &View{s.rows, figures.ViewOf(&s.Sums), inuse.FiguresOf(&s.leases.use)}
}

// Records are the kinds of rows, by what is derived of others. A queue and a quota come before the nodes and jobs: they
// decide what class a job is of.
func Records() []kernel.RecordDef {
	queues := kernel.Rows(recordQueue, "queue", func(s *kernel.State) *kernel.Table[string, *work.Queue] { return &Of(s).queues.rows },
		func(s *kernel.State, q *work.Queue) error { Of(s).SetQueue(q); return nil })
	quotas := kernel.Rows(recordQuota, "quota", func(s *kernel.State) *kernel.Table[string, *work.Quota] { return &Of(s).quotas.rows },
		func(s *kernel.State, q *work.Quota) error { Of(s).SetQuota(q.Tenant, q); return nil })
	queues.Order, quotas.Order = 2, 3
	return append(checkpoints.Records(func(s *kernel.State) *checkpoints.Tables { return &Of(s).Tables }), []kernel.RecordDef{
		queues,
		quotas,
		claims.Record(func(s *kernel.State) *claims.Book { return &Of(s).Book }, func(s *kernel.State, c *claims.Claim) { Of(s).PutClaim(c) }),
		windows.Record(func(s *kernel.State) *windows.Register { return &Of(s).Register },
			func(s *kernel.State, w *windows.Window) { Of(s).PutWindow(w) }),
		promises.Record(func(s *kernel.State) *promises.Ledger { return &Of(s).Ledger }),
		budgets.Record(func(s *kernel.State) *budgets.Meter { return &Of(s).Meter }),
		keys.Record(func(s *kernel.State) *keys.Ring { return &Of(s).Ring }),
		results.Record(func(s *kernel.State) *results.Sheet { return &Of(s).Sheet }),
		policy.Record(func(s *kernel.State) *policy.Table { return &Of(s).Table }),
		accounts.Record(func(s *kernel.State) *accounts.Bank { return &Of(s).Bank }),
		waiting.Record(func(s *kernel.State) *waiting.Lists { return &Of(s).Lists }),
		gpus.Record(func(s *kernel.State) *gpus.Models { return &Of(s).Models }),
		kernel.Rows(recordNode, "node", func(s *kernel.State) *kernel.Table[string, *work.Node] { return &Of(s).nodes.rows },
			func(s *kernel.State, n *work.Node) error {
				n.ID = s.Intern(n.ID)
				Of(s).PutNode(nil, n)
				return nil
			}),
		kernel.Rows(recordJob, "job", func(s *kernel.State) *kernel.Table[ident.Job, *work.Job] { return &Of(s).jobs.rows },
			func(s *kernel.State, j *work.Job) error {
				Of(s).Share(j)
				Of(s).PutJob(nil, j)
				return nil
			}),
		kernel.Rows(recordLease, "lease", func(s *kernel.State) *kernel.Table[LeaseKey, *work.Lease] { return &Of(s).leases.rows },
			func(s *kernel.State, l *work.Lease) error {
				l.Node = s.Intern(l.Node)
				Of(s).Grant(l)
				return nil
			}),
	}...)
}
