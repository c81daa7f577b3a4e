package fsm

import (
	"io"
	"iter"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

type tx struct{}

type Option func(*Machine)

type Machine struct{ view View }
type View struct{}
type Snapshot struct{ v *View }
type Entry struct {
	Index uint64
	Data  []byte
}

// Counts is how many jobs there are, by state (index it with a v1.JobState_Value).
type Counts [16]int

func Pack(now time.Time, commands [][]byte) []byte { return nil }
func New(opts ...Option) *Machine                  { return &Machine{} }

func (m *Machine) Apply(index uint64, entry []byte) []any           { return nil }
func (m *Machine) ApplyBatch(entries []Entry) [][]any               { return nil }
func (m *Machine) View() *View                                      { return &m.view }
func (m *Machine) Snapshot() *Snapshot                              { return &Snapshot{} }
func (m *Machine) Restore(r io.Reader) error                        { return nil }
func (m *Machine) StoreConfiguration(index uint64, voters []string) {}
func (m *Machine) OnApply(f func(v *View, events []Event))          {}
func (s *Snapshot) WriteTo(w io.Writer) (int64, error)              { return 0, nil }
func (s *Snapshot) Index() uint64                                   { return 0 }
func (s *Snapshot) Release()                                        {}
func Check(v *View) []string                                        { return nil }

func (v *View) Index() uint64 { return 0 }
func (v *View) Now() int64    { return 0 }
func (v *View) Hash() uint64  { return 0 }

// NextDue is the log time at which a Tick has something to do; false: never, as things are.
func (v *View) NextDue() (int64, bool) { return 0, false }

func (v *View) Job(id JobID) (*Job, bool) { return nil, false }

// Jobs iterates by id from that id on (inclusive; 0: from the end that comes first).
func (v *View) Jobs(desc bool, from JobID) iter.Seq[*Job]                        { return nil }
func (v *View) JobsOfTenant(tenant string, desc bool, from JobID) iter.Seq[*Job] { return nil }
func (v *View) ActiveJobs() iter.Seq[*Job]                                       { return nil }
func (v *View) Dependents(id JobID) iter.Seq[*Job]                               { return nil }

func (v *View) Node(id string) (*Node, bool)          { return nil, false }
func (v *View) Nodes() iter.Seq[*Node]                { return nil }
func (v *View) Use(node string) NodeUse               { return NodeUse{} }
func (v *View) LeasesOn(node string) iter.Seq[*Lease] { return nil }
func (v *View) Leases() iter.Seq[*Lease]              { return nil }

func (v *View) Classes() iter.Seq[ClassKey]         { return nil }
func (v *View) ClassJobs(k ClassKey) iter.Seq[*Job] { return nil }

// ClassJobsAfter fills buf with the jobs of the class that come after one of them (nil: from the head).
func (v *View) ClassJobsAfter(k ClassKey, after *Job, buf []*Job) []*Job { return nil }
func (v *View) ClassReason(k ClassKey) string                            { return "" }
func (v *View) Considered() uint64                                       { return 0 }

// QueueJobs iterates the jobs that wait in a queue, in the order in which they are considered.
func (v *View) QueueJobs(queue string) iter.Seq[*Job] { return nil }
func (v *View) QueueDepth(queue string) int           { return 0 }
func (v *View) Ahead(j *Job) int                      { return 0 }

func (v *View) Counts() Counts                   { return Counts{} }
func (v *View) QueueCounts(queue string) Counts  { return Counts{} }
func (v *View) QueueGPUs(queue string) int       { return 0 }
func (v *View) LeaseCount() int                  { return 0 }
func (v *View) Queues() iter.Seq[*Queue]         { return nil }
func (v *View) Queue(name string) (*Queue, bool) { return nil, false }

func (v *View) Checkpoint(id CheckpointID) (*Checkpoint, bool) { return nil, false }
func (v *View) CheckpointsOf(job JobID) iter.Seq[*Checkpoint]  { return nil }
func (v *View) Coordinator(id string) (*Coordinator, bool)     { return nil, false }
func (v *View) Coordinators() iter.Seq[*Coordinator]           { return nil }
func (v *View) Voters() []string                               { return nil }
func (v *View) GPUTypes() []string                             { return nil }

// Fenced is how many stale reports were refused, ever.
func (v *View) Fenced() uint64 { return 0 }

// Eligible is the set of GPUs of a node that a task of this shape could use: healthy, of the type, large enough, and
// (given the use) free, or with room for the fraction.
func Eligible(n *Node, u *NodeUse, s Shape) uint64 { return 0 }

// CheckTask says why a task of this shape cannot be on these GPUs of the node; nil: it can.
func CheckTask(n *Node, u *NodeUse, s Shape, gpus uint64) *Refusal { return nil }

// MatchesSelector says whether the labels of a node satisfy a canonical selector.
func MatchesSelector(labels map[string]string, selector string) bool { return false }

// CanonicalSelector is the Shape.Selector for a node selector.
func CanonicalSelector(want map[string]string) string { return "" }

// ResolveJob ...
var _ v1.JobState_Value
