package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/lease"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	patience     = 4 * second // without an answer in a session
	welcomeLimit = 5 * second
	relayLimit   = 2 * second
)

// agent is a machine, the agent on it, and the tasks that it has.
type agent struct {
	proc
	w    *world
	at   int
	rate float64

	// The machine.
	powered bool
	boots   int
	bootAt  int64
	tasks   []*task // in the order of their coming

	// On disk.
	version uint64
	roster  []string
	seq     uint64

	// The agent's memory.
	incarnation uint64
	keeper      *lease.Keeper
	sentAt      []sending // true times, for the checks
	session     *session
	calling     *session // the stream that is being opened
	callBy      int64
	term        uint64 // the newest that welcomed it
	outbox      []report
	reportSeq   uint64
	relayAt     int64
	pingAt      int64
	passing     []passing
	named       uint64 // without RuleDurable: the version that it has in memory
}

type sending struct {
	seq uint64
	at  int64
}

type report struct {
	seq  uint64
	body work.TaskReport
	end  *task
}

// passing is a renewal of another agent on its way through this one.
type passing struct {
	relayed
	done func()
}

func newAgent(w *world, id int) *agent {
	a := &agent{w: w, at: id - w.knobs.coordinators, rate: w.rate()}
	a.id, a.name = id, fmt.Sprintf("n%d", id-w.knobs.coordinators+1)
	return a
}

// clock is the machine's; it begins anew at each boot.
func (a *agent) clock() int64 { return a.local(a.w.now) }

func (a *agent) local(at int64) int64 { return int64(float64(at-a.bootAt)*a.rate) + 10*second }

// until is the time until the machine's clock says so.
func (a *agent) until(local int64) int64 {
	return int64(float64(local-a.clock())/a.rate) + 1
}

func (a *agent) powerOn() {
	if a.powered {
		return
	}
	a.powered, a.bootAt = true, a.w.now
	a.boots++
	a.w.note("boots", a.name, "", uint64(a.boots), 0)
	a.startAgent()
}

// powerOff ends all processes at once.
func (a *agent) powerOff() {
	if !a.powered {
		return
	}
	a.w.note("loses power", a.name, "", uint64(a.boots), 0)
	a.powered = false
	a.kill()
	for _, t := range a.tasks {
		t.alive = false
	}
	a.tasks = nil // What they were is of no interest after a boot: the state ends them by the new boot id.
}

// kill ends the agent, and nothing else.
func (a *agent) kill() {
	if !a.up {
		return
	}
	a.w.note("agent dies", a.name, "", a.incarnation, 0)
	a.up = false
	if s := a.session; s != nil {
		a.session = nil
		if a.powered {
			s.up.send(s.end)
		}
	}
	a.passing = nil
	a.tasks = slices.DeleteFunc(a.tasks, func(t *task) bool { return t.state == queued || t.state == launching })
}

func (a *agent) startAgent() {
	if a.up || !a.powered {
		return
	}
	a.start++
	a.up, a.awake = true, true
	a.incarnation = uint64(a.w.now/ms) + 1
	a.w.note("agent starts", a.name, "", a.incarnation, a.version)
	a.keeper = lease.New(a.name, lease.Timing{}, a.clock())
	if a.version != 0 {
		a.keeper.SetRoster(a.version, a.roster)
	}
	a.named = a.version
	a.session, a.calling, a.outbox, a.sentAt, a.term = nil, nil, nil, nil, 0
	a.relayAt, a.pingAt = 0, 0
	for _, t := range a.tasks {
		switch {
		case t.state == ended && !t.acked:
			a.report(t, work.ReportEnded)
		case t.state != ended:
			a.keeper.Add(t.key.text(), t.lease())
			a.keeper.Restore(t.key.text(), t.told)
		}
	}
	a.every(250*ms, a.step)
}

func (a *agent) later(d int64, do func()) {
	start := a.start
	a.w.after(d, func() { a.w.hand(&a.proc, start, do) })
}

func (a *agent) every(pace int64, do func()) {
	a.later(a.w.within(pace-pace/10, pace+pace/10), func() {
		do()
		a.every(pace, do)
	})
}

// step is what an agent does four times a second.
func (a *agent) step() {
	now := a.clock()
	s := a.session
	switch {
	case s != nil && now > s.patient:
		a.hangUp(s)
	case s != nil && now-s.beatAt >= heartbeat:
		a.beat(s)
	case s == nil && (a.calling == nil || now > a.callBy):
		a.call()
	}
	if a.keeper.NeedRelay(now) && !a.w.without(RuleRelay) && now-a.relayAt >= heartbeat {
		a.relayAt = now
		a.relay()
	}
	if a.keeper.NeedPing(now) && now-a.pingAt >= heartbeat/2 {
		a.pingAt = now
		a.ping()
	}
	a.tellShims()
	a.launchNext()
	a.sendReports()
}

// call asks any coordinator for a session.
func (a *agent) call() {
	c := a.w.coordinators[a.w.rng.IntN(len(a.w.coordinators))]
	s := &session{w: a.w, c: c, a: a, up: a.w.pipe(&a.proc, &c.proc), down: a.w.pipe(&c.proc, &a.proc)}
	if old := a.calling; old != nil {
		old.up.send(old.end)
	}
	a.calling, a.callBy = s, a.clock()+welcomeLimit
	if a.w.isCut(a.id, c.id) || a.w.isCut(c.id, a.id) || !c.up {
		a.callBy = a.clock() + 500*ms // no connection comes about
		return
	}
	hello := work.RegisterNode{Node: a.row()}
	for _, t := range a.tasks {
		if t.state != ended || !t.acked {
			hello.Tasks = append(hello.Tasks, work.TaskRef{Job: t.key.job, Attempt: t.key.attempt, Rank: t.key.rank, Token: t.key.token})
		}
	}
	s.up.send(func() { c.enter(a, s, hello) })
}

func (a *agent) row() work.Node {
	n := work.Node{
		ID: a.name, Hostname: a.name, BootID: fmt.Sprintf("boot-%d", a.boots), GRPCAddr: a.name + ":1", CPUs: 64, MemMB: 1 << 20,
		Incarnation: a.incarnation, RosterAcked: a.keeper.RosterVersion(),
	}
	for i := range gpusPerNode {
		n.GPUs = append(n.GPUs, work.GPU{UUID: fmt.Sprintf("%s-%d", a.name, i), Index: uint8(i), Type: "H100", MemMB: 80_000, Health: v1.GpuHealth_HEALTHY})
	}
	return n
}

// welcomed begins a session, unless the agent has given up waiting for it.
func (a *agent) welcomed(s *session, term uint64) {
	if a.calling != s || term < a.term {
		s.up.send(s.end)
		if a.calling == s {
			a.calling = nil
		}
		return
	}
	a.w.note("in session", a.name, s.c.name, term, a.seq)
	a.calling, a.session, a.term = nil, s, term
	s.patient = a.clock() + patience
	a.beat(s)
	s.sent = 0
	a.sendReports()
}

func (a *agent) nextSeq() uint64 {
	a.seq++
	a.keeper.Sent(a.seq, a.clock())
	a.sentAt = append(a.sentAt, sending{a.seq, a.w.now})
	if len(a.sentAt) > 300 {
		a.sentAt = slices.Delete(a.sentAt, 0, 100)
	}
	return a.seq
}

// keeps is the version of the roster that renewals name.
func (a *agent) keeps() uint64 {
	if a.w.without(RuleDurable) {
		return a.named
	}
	return a.keeper.RosterVersion()
}

func (a *agent) beat(s *session) {
	s.beatAt = a.clock()
	seq, roster := a.nextSeq(), a.keeps()
	s.up.send(func() { s.heartbeat(seq, roster) })
}

func (a *agent) acked(seq uint64) (news bool) {
	if !a.keeper.Acked(seq) {
		return false
	}
	for _, sent := range a.sentAt {
		if sent.seq == seq {
			a.w.truth.renewed[a.name] = max(a.w.truth.renewed[a.name], sent.at)
		}
	}
	a.launchNext()
	return true
}

func (a *agent) acknowledged(s *session, seq, reported uint64) {
	if a.session != s {
		return
	}
	if a.acked(seq) {
		s.patient = a.clock() + patience
		if !s.proven {
			s.proven = true
			a.keeper.SessionOpened(a.clock())
		}
	}
	n := 0
	for n < len(a.outbox) && a.outbox[n].seq <= reported {
		if t := a.outbox[n].end; t != nil {
			t.acked = true
		}
		n++
	}
	a.outbox = slices.Delete(a.outbox, 0, n)
	s.sent = max(0, s.sent-n)
}

// rosterCame writes the list to disk, which takes its time.
func (a *agent) rosterCame(s *session, version uint64, members []string) {
	if a.session != s {
		return
	}
	if !s.proven {
		a.later(200*ms, func() { a.rosterCame(s, version, members) })
		return
	}
	a.named = version
	disk := a.w.knobs.disk
	if a.version == 0 {
		disk = min(disk, 3*second)
	}
	a.later(a.w.within(ms, disk), func() {
		if version > a.version {
			a.version, a.roster = version, members
			a.keeper.SetRoster(version, members)
		}
	})
}

// closed is the end of the stream from the other side.
func (a *agent) closed(s *session) {
	if a.session == s {
		a.hangUp(s)
	} else if a.calling == s {
		a.calling = nil
	}
}

func (a *agent) hangUp(s *session) {
	a.w.note("out of session", a.name, s.c.name, a.seq, 0)
	a.session = nil
	a.keeper.SessionClosed(a.clock())
	s.up.send(s.end)
}

func (a *agent) tellShims() {
	for name, d := range a.keeper.Deadlines(a.clock()) {
		for _, t := range a.tasks {
			if t.state == running && !t.begun && d.StopAt > t.told.StopAt && t.key.text() == name {
				if d.RunsOn && !t.told.RunsOn {
					a.w.seen.RanOn++
					a.w.note("runs on", a.name, name, 0, uint64(d.StopAt))
				}
				t.told = d
			}
		}
	}
}

func (a *agent) report(t *task, kind work.ReportKind) {
	a.reportSeq++
	r := report{seq: a.reportSeq, body: work.TaskReport{
		Job: t.key.job, Attempt: t.key.attempt, Rank: t.key.rank, Token: t.key.token, Kind: kind, Time: epoch + a.w.now,
	}}
	if kind == work.ReportEnded {
		r.end = t
		r.body.ExitCode, r.body.ErrorType, r.body.ErrorMessage = t.exit, t.cause, reason.Text(t.why)
	}
	a.outbox = append(a.outbox, r)
	a.sendReports()
}

func (a *agent) sendReports() {
	s := a.session
	if s == nil || s.sent >= len(a.outbox) {
		return
	}
	batch := slices.Clone(a.outbox[s.sent:])
	s.sent = len(a.outbox)
	s.up.send(func() { s.reports(batch) })
}

func duration(ns int64) time.Duration { return time.Duration(ns) }
