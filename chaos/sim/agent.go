package sim

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/session"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/engine"
	"github.com/mindcoordinator/mind/chaos/sim/machine"
)

const gpusPerNode = 16

// node is a machine with its agent. It embeds the agent's process.
type node struct {
	*engine.Proc
	*machine.Machine
	w    *world
	at   int
	life *life // of the running agent, or of the last one
}

func newNode(w *world, i int) *node {
	name := fmt.Sprintf("n%d", i+1)
	n := &node{Proc: w.Add(name), Machine: machine.New(w.Engine, name, w.rate(), w), w: w, at: i}
	n.Immortal = w.without(RuleDeadline)
	return n
}

// wall returns the time of the wall clock, which is correct.
func (n *node) wall() time.Time { return time.Unix(0, n.w.Wall()) }

func (n *node) powerOn() {
	if n.PowerOn() {
		n.startAgent()
	}
}

func (n *node) powerOff() {
	if n.Powered() {
		n.PowerOff()
		n.kill()
	}
}

// life is the memory of an agent, from its start to its death. The real packages decide: lease.Book, table.Table,
// outbox.Queue, session.Search and session.Session.
type life struct {
	n           *node
	incarnation uint64
	book        *lease.Book
	table       *table.Table
	outbox      *outbox.Queue
	search      *session.Search
	call        *call // the present one; nil: there is none

	sent            []renewal // with true times, for the checks
	relayAt, pingAt int64
	ranOn           map[string]bool // tasks that ran past their leases at the last update of their shims
	unwritten       *v1.Roster      // the newest one that is not on disk yet
	writing         bool
	named           uint64 // the newest version of the roster that arrived, on disk or not
	flushing        bool   // a flush of reports is scheduled
}

type renewal struct {
	seq uint64
	at  int64
}

// quiet discards the log of the table.
var quiet = slog.New(slog.DiscardHandler)

func (n *node) startAgent() {
	if n.Up() || !n.Powered() {
		return
	}
	n.Start()
	n.Disk.Starts++
	first := n.Disk.Starts << 32 // above all numbers of earlier agents
	l := &life{
		n: n, incarnation: uint64(n.w.Now()/ms) + 1, book: lease.NewBook(n.Name, lease.Timing{}, first, n.Clock()),
		outbox: outbox.NewQueue(first), ranOn: map[string]bool{},
	}
	n.life = l
	n.w.Note("agent starts", n.Name, "", l.incarnation, n.Disk.Roster.GetVersion())
	if r := n.Disk.Roster; r != nil {
		l.use(r)
	}
	var addrs []string
	for _, c := range n.w.coordinators {
		addrs = append(addrs, c.Name)
	}
	l.search = session.NewSearch(addrs, n.w.Rand.Shuffle)
	l.table = table.New(table.Config{
		Node: n.Name, MaxLaunches: 2, KeepTasks: 3, KeepTasksFor: time.Hour,
		Work: (*worker)(l), Outbox: (*mailbox)(l), Leases: (*leases)(l), GPUs: well{}, Notes: well{}, Log: quiet,
	})
	var found []table.Left
	for _, r := range n.Disk.Tasks {
		found = append(found, left(r))
	}
	l.table.Adopt(found, n.wall())
	timing := l.book.Timing()
	n.Every(timing.Heartbeat/4, l.turnToPeers)
	n.Every(timing.Heartbeat/2, l.tellShims)
	l.find()
}

// left returns the state of a task that an earlier agent left.
func left(r *machine.Record) table.Left {
	if r.Acked {
		return table.Left{ID: r.ID, Ended: true, EndedAt: time.Unix(0, r.Exit.Ended)}
	}
	return table.Left{ID: r.ID, Has: holding.Of(r.Spec), Disowned: r.Disowned}
}

// kill ends the agent. The machine and its tasks keep running.
func (n *node) kill() {
	if !n.Up() {
		return
	}
	n.w.Note("agent dies", n.Name, "", n.life.incarnation, 0)
	n.Die()
	switch c := n.life.call; {
	case c == nil:
	case n.Powered():
		c.hangUp()
	default:
		c.over = true // the call does not report its end
	}
}

// current reports whether this agent is the running one.
func (l *life) current() bool { return l.n.Up() && l.n.life == l }

func (l *life) hello() *v1.Hello {
	n := l.n
	h := &v1.Hello{
		NodeId: n.Name, Hostname: n.Name, BootId: n.BootID(), GrpcAddr: n.Name + ":1", CpuCount: 64, MemoryMb: 1 << 20,
		Incarnation: l.incarnation, RosterVersion: l.book.RosterVersion(), Tasks: l.table.Unacknowledged(),
	}
	for i := range gpusPerNode {
		h.Gpus = append(h.Gpus, &v1.Gpu{
			Uuid: fmt.Sprintf("%s-%d", n.Name, i), Index: int32(i), GpuType: "H100", MemoryMb: 80_000, Health: v1.GpuHealth_HEALTHY,
		})
	}
	return h
}

// renewal returns the number and the roster version of a renewal that is being sent.
func (l *life) renewal() (seq, roster uint64) {
	seq, roster = l.book.Renewal(l.n.Clock())
	l.sent = append(l.sent, renewal{seq, l.n.w.Now()})
	if l.n.w.without(RuleDurable) {
		roster = max(roster, l.named)
	}
	return seq, roster
}

// acked handles the acknowledgement of a renewal.
func (l *life) acked(seq uint64) (news bool) {
	if news = l.book.Acked(seq); !news {
		return false
	}
	// The book forgets the same renewals.
	at, found := slices.BinarySearchFunc(l.sent, seq, func(r renewal, seq uint64) int { return cmp.Compare(r.seq, seq) })
	if found {
		renewed := l.n.w.truth.renewed
		renewed[l.n.Name] = max(renewed[l.n.Name], l.sent[at].at)
		l.sent = slices.Delete(l.sent, 0, at+1)
	}
	l.launchable()
	return true
}

// launchable makes the table check again if a task waits for the permission to be launched.
func (l *life) launchable() {
	if l.book.Waiting() || l.n.w.without(RuleSession) {
		l.table.LaunchNext()
	}
}

// tellShims sends the deadlines that have moved to the shims.
func (l *life) tellShims() {
	n := l.n
	words, _ := l.book.Due(n.Clock())
	for _, word := range words {
		d, r := word.Deadline, n.Named(word.Name)
		if d.RunsOn && !l.ranOn[word.Name] {
			n.w.seen.RanOn++
			n.w.Note("runs on", n.Name, r.ID.Job, r.ID.Token, uint64(d.StopAt))
		}
		l.ranOn[word.Name] = d.RunsOn
		if p := n.Attach(r); p != nil {
			p.Extend(shimDeadline(d))
		}
	}
	l.launchable()
}

func shimDeadline(d lease.Deadline) shim.Deadline {
	return shim.Deadline{StopAt: d.StopAt, DeadBy: d.DeadBy, Renewed: d.Renewed}
}

// keep writes a roster to disk, which takes time. Of the rosters that arrive meanwhile only the newest is written.
func (l *life) keep(r *v1.Roster) {
	l.named = r.GetVersion()
	l.unwritten = r
	if !l.writing {
		l.write()
	}
}

func (l *life) write() {
	n, r := l.n, l.unwritten
	l.unwritten, l.writing = nil, true
	took := n.w.knobs.disk
	if n.Disk.Roster == nil {
		took = min(took, 3*second)
	}
	n.After(n.w.Within(ms, took), func() {
		n.Disk.Roster = r
		l.use(r)
		if l.call != nil {
			l.call.beat() // until the leader knows, tasks here cannot be replaced
		}
		if l.writing = l.unwritten != nil; l.writing {
			l.write()
		}
	})
}

// use activates a roster that is on disk.
func (l *life) use(r *v1.Roster) {
	var members []string
	for _, m := range r.GetMembers() {
		members = append(members, m.GetNodeId())
	}
	l.book.SetRoster(r.GetVersion(), members)
}

// turnToPeers relays and pings if the lease book needs it.
func (l *life) turnToPeers() {
	now, pace := l.n.Clock(), int64(l.book.Timing().Heartbeat)
	if l.book.NeedRelay(now) && !l.n.w.without(RuleRelay) && now-l.relayAt >= pace {
		l.relayAt = now
		l.relay()
	}
	if l.book.NeedPing(now) && now-l.pingAt >= pace/2 {
		l.pingAt = now
		l.ping()
	}
}

// relay asks the peers to relay a renewal.
func (l *life) relay() {
	n := l.n
	seq, roster := l.renewal()
	r := &v1.Renewal{NodeId: n.Name, BootId: n.BootID(), Seq: seq, RosterVersion: roster}
	done := func() {
		if l.current() && l.acked(seq) {
			n.w.seen.Relayed++
		}
	}
	for _, name := range l.book.Peers() {
		p := n.w.node(name)
		n.Send(p.Proc, func() { p.life.pass(r, func() { p.Send(n.Proc, done) }) })
	}
}

// ping asks the peers whether their sessions are closed, too.
func (l *life) ping() {
	n, sentAt := l.n, l.n.Clock()
	closed := func(name string) {
		if l.current() {
			l.book.PeerClosed(name, sentAt)
			l.tellShims()
		}
	}
	for _, name := range l.book.Peers() {
		if n.w.without(RuleAcks) {
			closed(name)
			continue
		}
		p := n.w.node(name)
		n.Send(p.Proc, func() {
			if p.life.book.AnswerPing(p.Clock()) || n.w.without(RuleClosed) {
				p.Send(n.Proc, func() { closed(name) })
			}
		})
	}
}
