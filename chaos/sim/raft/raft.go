// Package raft is a small model of raft for a simulation: terms, elections, replication of whole logs, and proofs of
// leadership. Logs, terms and votes survive a crash.
//
// It is not hashicorp/raft, which needs goroutines and the clock; package virtual runs that. The model has the
// properties that the rest of Mind relies on: a committed entry stays, each term has at most one leader, the outcome of
// a proposal may be unknown, and a proof of leadership covers only events before it began.
package raft

import (
	"math/bits"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/chaos/sim/engine"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

const (
	ms = int64(time.Millisecond)

	pulse       = 200 * time.Millisecond
	verifyLimit = 2 * int64(time.Second)
)

// Entry is an entry of the log. For the checks it has the commands beside the encoded bytes.
type Entry struct {
	Term     uint64
	Data     []byte // nil: no command for the state machine
	Commands []kernel.Command
	Voters   []string
}

// Host is the replica around a log.
type Host interface {
	// Clock is its monotonic clock, Wall its wall clock.
	Clock() int64
	Wall() time.Time
	// Apply applies a committed entry.
	Apply(index int, e *Entry) (results []any)
	// Leads is called when the replica leads and has applied all entries of earlier leaders, Deposed when it leads no
	// more.
	Leads()
	Deposed()
}

// Outcome is the outcome of a proposal.
type Outcome int

// The outcomes.
const (
	Applied Outcome = iota
	NotSent
	Unknown
)

// Config configures a Log.
type Config struct {
	Engine *engine.Engine
	Proc   *engine.Proc
	Host   Host
	// ID is the index of this log among the peers.
	ID int
	// LeaderLease is the time after which a leader notices that it has no followers; Lag is how late a follower may
	// apply.
	LeaderLease, Lag int64
}

// Log is the log of one replica. Term, vote and entries are on disk; the rest is lost with the process.
type Log struct {
	Config
	peers []*Log

	term    uint64
	voted   int // -1: nobody
	entries []Entry

	memory
}

// memory is the state that is lost with the process.
type memory struct {
	leads   bool
	leader  int // as far as this replica knows; -1: unknown
	commit  int
	done    int // entries applied
	barrier int // the entry with which its term begins
	granted uint64
	match   []int
	heardOf []int64 // when the newest answered message was sent to each follower, by the own clock
	round   uint64
	proofs  []*proof
	waiting []waiting // proposals whose entry was not applied yet
	queued  []proposal
	elect   int64
}

// proof is a round of messages that shows that no other leader was elected.
type proof struct {
	round uint64
	by    uint64
	done  func(ok bool)
}

type proposal struct {
	command kernel.Command
	done    func(Outcome, any)
}

type waiting struct {
	index int
	batch []proposal
}

// New makes the log of a replica. voters is the first entry, which all logs have.
func New(config Config, voters []string) *Log {
	return &Log{Config: config, term: 1, voted: -1, entries: []Entry{{Term: 1, Voters: voters}}}
}

// Connect makes logs each other's peers.
func Connect(logs []*Log) {
	for _, l := range logs {
		l.peers = logs
	}
}

// Term returns the newest known term.
func (l *Log) Term() uint64 { return l.term }

// Done returns the number of applied entries.
func (l *Log) Done() int { return l.done }

// Leading reports whether the replica was elected and has not stepped down.
func (l *Log) Leading() bool { return l.leads }

// Leader returns the leader, as far as this replica knows.
func (l *Log) Leader() (id int, known bool) { return l.leader, l.leader >= 0 }

// Boot starts the log after the entries in a snapshot.
func (l *Log) Boot(snapshot int) {
	l.memory = memory{leader: -1, commit: snapshot, done: snapshot}
	l.rest()
	l.Proc.Every(pulse, l.tick)
}

// Crash ends the open proposals with the outcome that their proposers can know, after the process died.
func (l *Log) Crash() {
	l.leads = false
	l.dropProposals()
}

func (l *Log) dropProposals() {
	open, queued := l.waiting, l.queued
	l.waiting, l.queued, l.proofs = nil, nil, nil
	for _, w := range open {
		for _, p := range w.batch {
			p.done(Unknown, nil)
		}
	}
	for _, p := range queued {
		p.done(NotSent, nil)
	}
}

func (l *Log) majority(set uint64) bool { return 2*bits.OnesCount64(set) > len(l.peers) }

// tick is called periodically.
func (l *Log) tick() {
	now := l.Host.Clock()
	if l.leads {
		newest := slices.Clone(l.heardOf)
		newest[l.ID] = now
		slices.Sort(newest)
		if now-newest[(len(newest)-1)/2] > l.LeaderLease {
			l.stepDown(l.term)
			return
		}
		l.replicate()
		return
	}
	if now > l.elect {
		l.Campaign()
	}
}

func (l *Log) rest() { l.elect = l.Host.Clock() + l.Engine.Within(900*ms, 2000*ms) }

// roundTrip sends a request to another replica, and its answer back, if neither is lost.
func (l *Log) roundTrip(o *Log, ask func() (answer func())) {
	l.Proc.Send(o.Proc, func() { o.Proc.Send(l.Proc, ask()) })
}

// Campaign asks the others for their votes.
func (l *Log) Campaign() {
	l.stepDown(l.term + 1)
	l.voted, l.granted, l.leader = l.ID, 1<<l.ID, -1
	l.rest()
	term, size, last := l.term, len(l.entries), l.lastTerm()
	l.Engine.Note("campaign", l.Proc.Name, "", term, uint64(size))
	for _, o := range l.peers {
		if o == l {
			continue
		}
		l.roundTrip(o, func() func() {
			ok := o.vote(l.ID, term, size, last)
			reply := o.term
			return func() { l.counted(o.ID, term, reply, ok) }
		})
	}
}

func (l *Log) lastTerm() uint64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].Term
}

func (l *Log) vote(candidate int, term uint64, size int, last uint64) bool {
	if term > l.term {
		l.stepDown(term)
	}
	newer := last > l.lastTerm() || last == l.lastTerm() && size >= len(l.entries)
	if term < l.term || !newer || l.voted >= 0 && l.voted != candidate {
		return false
	}
	l.voted = candidate
	l.rest()
	return true
}

func (l *Log) counted(by int, term, reply uint64, ok bool) {
	if reply > l.term {
		l.stepDown(reply)
		return
	}
	if l.term != term || l.leads || l.voted != l.ID || !ok {
		return
	}
	if l.granted |= 1 << by; !l.majority(l.granted) {
		return
	}
	l.Engine.Note("elected", l.Proc.Name, "", term, uint64(len(l.entries)))
	l.leads, l.leader = true, l.ID
	l.match = make([]int, len(l.peers))
	l.heardOf = make([]int64, len(l.peers))
	for i := range l.heardOf {
		l.heardOf[i] = l.Host.Clock()
	}
	l.entries = append(l.entries, Entry{Term: term})
	l.barrier = len(l.entries)
	l.replicate()
}

// stepDown makes the replica a follower in a term.
func (l *Log) stepDown(term uint64) {
	if term > l.term {
		l.term, l.voted, l.leader = term, -1, -1
	}
	l.granted = 0
	if !l.leads {
		return
	}
	l.Engine.Note("steps down", l.Proc.Name, "", l.term, uint64(len(l.entries)))
	l.leads, l.leader = false, -1
	l.Host.Deposed()
	l.rest()
	for _, p := range l.proofs {
		p.done(false)
	}
	l.dropProposals()
}

// replicate sends the whole log to all others, which costs nothing in a simulation.
func (l *Log) replicate() {
	l.round++
	term, round, asked, commit := l.term, l.round, l.Host.Clock(), l.commit
	entries := l.entries[:len(l.entries):len(l.entries)]
	for _, o := range l.peers {
		if o == l {
			continue
		}
		l.roundTrip(o, func() func() {
			size, ok := o.follow(l.ID, term, entries, commit)
			reply := o.term
			return func() { l.followed(o.ID, term, reply, round, asked, size, ok) }
		})
	}
}

func (l *Log) follow(leader int, term uint64, entries []Entry, commit int) (size int, ok bool) {
	if term < l.term {
		return 0, false
	}
	l.stepDown(term)
	l.leader = leader
	l.rest()
	n := len(entries)
	if len(l.entries) < n || l.entries[n-1].Term != entries[n-1].Term {
		if len(l.entries) > n {
			l.Engine.Note("drops a tail", l.Proc.Name, "", uint64(len(l.entries)), uint64(n))
		}
		l.entries = entries
	}
	if commit = min(commit, n); commit > l.commit {
		l.commit = commit
		l.Proc.After(l.Engine.Within(0, l.Lag), l.apply)
	}
	return n, true
}

func (l *Log) followed(by int, term, reply, round uint64, asked int64, size int, ok bool) {
	if reply > l.term {
		l.stepDown(reply)
		return
	}
	if !l.leads || l.term != term || !ok {
		return
	}
	l.heardOf[by] = max(l.heardOf[by], asked)
	l.match[by] = max(l.match[by], size)
	var proven []*proof
	l.proofs = slices.DeleteFunc(l.proofs, func(p *proof) bool {
		if round >= p.round {
			p.by |= 1 << by
		}
		if l.majority(p.by) {
			proven = append(proven, p)
			return true
		}
		return false
	})
	l.match[l.ID] = len(l.entries)
	sorted := slices.Sorted(slices.Values(l.match))
	if n := sorted[(len(sorted)-1)/2]; n > l.commit && l.entries[n-1].Term == l.term {
		l.commit = n
		l.apply()
	}
	for _, p := range proven {
		p.done(true)
	}
}

// Verify proves that this replica leads, by a new round of messages.
func (l *Log) Verify(done func(ok bool)) {
	if !l.leads {
		done(false)
		return
	}
	l.replicate()
	p := &proof{round: l.round, by: 1 << l.ID, done: done}
	l.proofs = append(l.proofs, p)
	l.Proc.After(verifyLimit, func() {
		if at := slices.Index(l.proofs, p); at >= 0 {
			l.proofs = slices.Delete(l.proofs, at, at+1)
			p.done(false)
		}
	})
}

// Propose proposes a command. done is called when it is applied here, or its outcome is unknown for good.
func (l *Log) Propose(command kernel.Command, done func(Outcome, any)) {
	if !l.leads {
		done(NotSent, nil)
		return
	}
	l.queued = append(l.queued, proposal{command, done})
	if len(l.queued) == 1 {
		l.Proc.After(l.Engine.Within(ms, 6*ms), l.flush)
	}
}

// flush makes one entry out of the waiting commands.
func (l *Log) flush() {
	if !l.leads || len(l.queued) == 0 {
		return
	}
	batch := l.queued
	l.queued = nil
	e := Entry{Term: l.term}
	var raw [][]byte
	for _, p := range batch {
		b, err := kernel.Encode(level.Supported().Newest, p.command)
		if err != nil {
			panic(err)
		}
		raw = append(raw, b)
		e.Commands = append(e.Commands, p.command)
	}
	e.Data = kernel.Pack(level.Supported().Newest, l.Host.Wall(), raw)
	l.entries = append(l.entries, e)
	l.waiting = append(l.waiting, waiting{len(l.entries), batch})
	l.replicate()
}

// apply applies committed entries.
func (l *Log) apply() {
	for l.done < l.commit {
		l.done++
		results := l.Host.Apply(l.done, &l.entries[l.done-1])
		if len(l.waiting) > 0 && l.waiting[0].index == l.done {
			batch := l.waiting[0].batch
			l.waiting = l.waiting[1:]
			for i, p := range batch {
				p.done(Applied, results[i])
			}
		}
		if l.leads && l.done == l.barrier {
			l.Host.Leads()
		}
	}
}
