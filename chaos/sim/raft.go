package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

const (
	raftPulse   = 200 * ms
	verifyLimit = 2 * second
)

// entry is one of the log. What it says is kept in the clear beside the bytes, for the checks.
type entry struct {
	term     uint64
	data     []byte // nil: nothing for the state machine
	commands []kernel.Command
	voters   []string
}

// log is the modelled raft of one coordinator. Term, vote and entries are on disk; the rest is lost with the process.
type log struct {
	term    uint64
	voted   int // -1: nobody
	entries []entry

	leads   bool
	commit  int
	granted uint64
	match   []int
	heardOf []int64 // when the follower's newest answer was asked for, on the own clock
	round   uint64
	proofs  []*proof
	waiting []waiting // proposals whose entry is not applied yet
	queued  []proposal
	elect   int64
}

// proof is an exchange that shows that nobody else was elected.
type proof struct {
	round uint64
	by    uint64
	done  func(ok bool)
}

// outcome of a proposal.
type outcome int

const (
	applied outcome = iota
	notSent
	unknown
)

type proposal struct {
	command kernel.Command
	done    func(outcome, any)
}

type waiting struct {
	index int
	batch []proposal
}

func (c *coordinator) majority(set uint64) bool {
	n := 0
	for ; set != 0; set &= set - 1 {
		n++
	}
	return 2*n > len(c.w.coordinators)
}

// raftTick is the clock of the log.
func (c *coordinator) raftTick() {
	l := &c.log
	now := c.clock()
	if l.leads {
		newest := slices.Clone(l.heardOf)
		newest[c.id] = now
		slices.Sort(newest)
		if now-newest[(len(newest)-1)/2] > c.w.knobs.leaderLease {
			c.stepDown(l.term)
			return
		}
		c.replicate()
		return
	}
	if now > l.elect {
		c.campaign()
	}
}

func (c *coordinator) rest() { c.log.elect = c.clock() + c.w.within(900*ms, 2*second) }

func (c *coordinator) campaign() {
	l := &c.log
	c.stepDown(l.term + 1)
	l.voted, l.granted = c.id, 1<<c.id
	c.rest()
	term, size, last := l.term, len(l.entries), l.lastTerm()
	c.w.note("campaign", c.name, "", term, uint64(size))
	for _, o := range c.w.coordinators {
		if o == c {
			continue
		}
		c.w.send(&c.proc, &o.proc, func() {
			ok := o.vote(c.id, term, size, last)
			reply := o.log.term
			o.w.send(&o.proc, &c.proc, func() { c.voted(o.id, term, reply, ok) })
		})
	}
}

func (l *log) lastTerm() uint64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].term
}

func (c *coordinator) vote(candidate int, term uint64, size int, last uint64) bool {
	l := &c.log
	if term > l.term {
		c.stepDown(term)
	}
	newer := last > l.lastTerm() || last == l.lastTerm() && size >= len(l.entries)
	if term < l.term || !newer || l.voted >= 0 && l.voted != candidate {
		return false
	}
	l.voted = candidate
	c.rest()
	return true
}

func (c *coordinator) voted(by int, term, reply uint64, ok bool) {
	l := &c.log
	if reply > l.term {
		c.stepDown(reply)
		return
	}
	if l.term != term || l.leads || l.voted != c.id || !ok {
		return
	}
	if l.granted |= 1 << by; !c.majority(l.granted) {
		return
	}
	c.w.seen.Elections++
	c.w.note("elected", c.name, "", term, uint64(len(l.entries)))
	l.leads = true
	l.match = make([]int, len(c.w.coordinators))
	l.heardOf = make([]int64, len(c.w.coordinators))
	for i := range l.heardOf {
		l.heardOf[i] = c.clock()
	}
	l.entries = append(l.entries, entry{term: term})
	c.barrier = len(l.entries)
	c.replicate()
}

// stepDown goes on as a follower, in that term.
func (c *coordinator) stepDown(term uint64) {
	l := &c.log
	if term > l.term {
		l.term, l.voted = term, -1
	}
	l.granted = 0
	if !l.leads {
		return
	}
	c.w.note("steps down", c.name, "", l.term, uint64(len(l.entries)))
	l.leads = false
	c.endTerm()
	c.rest()
	proofs, open, queued := l.proofs, l.waiting, l.queued
	l.proofs, l.waiting, l.queued = nil, nil, nil
	for _, p := range proofs {
		p.done(false)
	}
	for _, wt := range open {
		for _, p := range wt.batch {
			c.w.seen.Unknown++
			p.done(unknown, nil)
		}
	}
	for _, p := range queued {
		p.done(notSent, nil)
	}
}

// replicate sends the whole log to everybody: a new slice of it costs nothing.
func (c *coordinator) replicate() {
	l := &c.log
	l.round++
	term, round, asked, commit := l.term, l.round, c.clock(), l.commit
	entries := l.entries[:len(l.entries):len(l.entries)]
	for _, o := range c.w.coordinators {
		if o == c {
			continue
		}
		c.w.send(&c.proc, &o.proc, func() {
			size, ok := o.follow(term, entries, commit)
			reply := o.log.term
			o.w.send(&o.proc, &c.proc, func() { c.followed(o.id, term, reply, round, asked, size, ok) })
		})
	}
}

func (c *coordinator) follow(term uint64, entries []entry, commit int) (size int, ok bool) {
	l := &c.log
	if term < l.term {
		return 0, false
	}
	c.stepDown(term)
	c.rest()
	n := len(entries)
	if len(l.entries) < n || l.entries[n-1].term != entries[n-1].term {
		if len(l.entries) > n {
			c.w.note("drops a tail", c.name, "", uint64(len(l.entries)), uint64(n))
		}
		l.entries = entries
	}
	if commit = min(commit, n); commit > l.commit {
		l.commit = commit
		c.applySoon()
	}
	return n, true
}

func (c *coordinator) followed(by int, term, reply, round uint64, asked int64, size int, ok bool) {
	l := &c.log
	if reply > l.term {
		c.stepDown(reply)
		return
	}
	if !l.leads || l.term != term || !ok {
		return
	}
	l.heardOf[by] = max(l.heardOf[by], asked)
	l.match[by] = max(l.match[by], size)
	var done []*proof
	l.proofs = slices.DeleteFunc(l.proofs, func(p *proof) bool {
		if round >= p.round {
			p.by |= 1 << by
		}
		if c.majority(p.by) {
			done = append(done, p)
			return true
		}
		return false
	})
	l.match[c.id] = len(l.entries)
	sorted := slices.Sorted(slices.Values(l.match))
	if n := sorted[(len(sorted)-1)/2]; n > l.commit && l.entries[n-1].term == l.term {
		l.commit = n
		c.apply()
	}
	for _, p := range done {
		p.done(true)
	}
}

// verify proves that this coordinator leads, by an exchange that begins now.
func (c *coordinator) verify(done func(ok bool)) {
	l := &c.log
	if !l.leads {
		done(false)
		return
	}
	c.replicate()
	p := &proof{round: l.round, by: 1 << c.id, done: done}
	l.proofs = append(l.proofs, p)
	start := c.start
	c.w.after(verifyLimit, func() {
		if at := slices.Index(l.proofs, p); at >= 0 && c.up && c.start == start {
			l.proofs = slices.Delete(l.proofs, at, at+1)
			p.done(false)
		}
	})
}

// propose brings a command into the log. done is called when it is applied here, or its fate is known to be unknown.
func (c *coordinator) propose(command kernel.Command, done func(outcome, any)) {
	l := &c.log
	if !l.leads {
		done(notSent, nil)
		return
	}
	l.queued = append(l.queued, proposal{command, done})
	if len(l.queued) > 1 {
		return
	}
	c.later(c.w.within(ms, 6*ms), c.flush)
}

// flush makes one entry of what waits.
func (c *coordinator) flush() {
	l := &c.log
	if !l.leads || len(l.queued) == 0 {
		return
	}
	batch := l.queued
	l.queued = nil
	e := entry{term: l.term}
	var raw [][]byte
	for _, p := range batch {
		b, err := kernel.Encode(level.Newest, p.command)
		if err != nil {
			panic(err)
		}
		raw = append(raw, b)
		e.commands = append(e.commands, p.command)
	}
	e.data = kernel.Pack(level.Newest, time.Unix(0, c.wall()), raw)
	l.entries = append(l.entries, e)
	l.waiting = append(l.waiting, waiting{len(l.entries), batch})
	c.replicate()
}

// applySoon is how a follower applies: late.
func (c *coordinator) applySoon() {
	c.later(c.w.within(0, c.w.knobs.lag), c.apply)
}

// apply applies what is committed.
func (c *coordinator) apply() {
	l := &c.log
	for c.done < l.commit && c.w.found == nil {
		c.done++
		e := &l.entries[c.done-1]
		var results []any
		switch {
		case e.voters != nil:
			c.machine.StoreConfiguration(uint64(c.done), e.voters)
		case e.data != nil:
			results = c.machine.Apply(uint64(c.done), e.data)
		}
		c.w.truth.applied(c, c.done, e)
		if len(l.waiting) > 0 && l.waiting[0].index == c.done {
			batch := l.waiting[0].batch
			l.waiting = l.waiting[1:]
			for i, p := range batch {
				p.done(applied, results[i])
			}
		}
		if l.leads && c.done == c.barrier {
			c.beginTerm()
		}
	}
}

// snapshot keeps the state for the next start.
func (c *coordinator) snapshot() {
	var b bytes.Buffer
	if _, err := c.machine.Snapshot().WriteTo(&b); err != nil {
		panic(err)
	}
	c.saved, c.savedAt = b.Bytes(), c.done
}
