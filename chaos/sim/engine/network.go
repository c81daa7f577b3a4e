package engine

import "time"

const (
	ms       = int64(time.Millisecond)
	maxProcs = 16
)

// Weather has the probabilities of what happens to messages in flight.
type Weather struct {
	// Loss and Double apply to single messages. Late messages take up to 1.5 s.
	Loss, Late, Double float64
}

// Proc is a process at the end of links.
type Proc struct {
	Name  string
	ID    int // by the order in which they were made
	e     *Engine
	up    bool
	awake bool
	start uint64
}

// Add makes a process that was not started yet.
func (e *Engine) Add(name string) *Proc {
	p := &Proc{Name: name, ID: len(e.procs), e: e}
	e.procs = append(e.procs, p)
	return p
}

// Procs returns the number of processes.
func (e *Engine) Procs() int { return len(e.procs) }

// Start starts a process that does not run.
func (p *Proc) Start() {
	p.start++
	p.up, p.awake = true, true
}

// Die ends the process. Its scheduled events do not happen any more.
func (p *Proc) Die() { p.up = false }

// Freeze stops the process like SIGSTOP, until Thaw.
func (p *Proc) Freeze() { p.awake = false }

// Thaw continues the process.
func (p *Proc) Thaw() { p.awake = true }

// Up reports whether the process was started and has not died.
func (p *Proc) Up() bool { return p.up }

// Live reports whether the process is up and not frozen.
func (p *Proc) Live() bool { return p.up && p.awake }

// After schedules an event of this process, which does not happen if the process dies before.
func (p *Proc) After(d int64, do func()) {
	start := p.start
	p.e.After(d, func() { p.hand(start, do) })
}

// Every schedules a periodic event of this process.
func (p *Proc) Every(pace time.Duration, do func()) {
	p.After(p.e.About(pace), func() {
		do()
		p.Every(pace, do)
	})
}

func (p *Proc) hand(start uint64, do func()) {
	switch {
	case !p.up || p.start != start:
	case !p.awake:
		p.e.After(100*ms, func() { p.hand(start, do) })
	default:
		do()
	}
}

// Cut reports whether the link from one process to another, by their IDs, is cut.
func (e *Engine) Cut(from, to int) bool { return e.cut[from*maxProcs+to] }

// SetCut cuts a link in one direction, or restores it.
func (e *Engine) SetCut(from, to int, cut bool) {
	if from != to {
		e.cut[from*maxProcs+to] = cut
	}
}

// Mend restores each cut link with a probability.
func (e *Engine) Mend(p float64) {
	for i := range e.cut {
		e.cut[i] = e.cut[i] && !e.Chance(p)
	}
}

// Linked reports whether the links between two processes work in both directions.
func (e *Engine) Linked(a, b *Proc) bool { return !e.Cut(a.ID, b.ID) && !e.Cut(b.ID, a.ID) }

// Reach reports whether two processes hear each other, directly or through one other process.
func (e *Engine) Reach(a, b *Proc) bool {
	path := e.Linked(a, b)
	for i := 0; !path && i < len(e.procs); i++ {
		m := e.procs[i]
		path = m.Live() && m != a && m != b && e.Linked(a, m) && e.Linked(m, b)
	}
	return path
}

// latency draws the time that a message takes.
func (e *Engine) latency() int64 {
	if e.Chance(e.Weather.Late) {
		return e.Within(20*ms, 1500*ms)
	}
	return e.Within(ms/2, 12*ms)
}

// Send sends one message to a process, which arrives at most once unless it is doubled. A frozen process gets it when
// it continues; a dead process never does.
func (p *Proc) Send(to *Proc, do func()) {
	e := p.e
	if e.Chance(e.Weather.Loss) {
		return
	}
	start := to.start
	copies := 1
	if e.Chance(e.Weather.Double) {
		copies = 2
	}
	for range copies {
		e.After(e.latency(), func() {
			if !e.Cut(p.ID, to.ID) {
				to.hand(start, do)
			}
		})
	}
}

// Pipe is one direction of a stream: messages arrive in order, after any cut of the link, or not at all.
type Pipe struct {
	from, to *Proc
	start    uint64
	waiting  []func()
	pumping  bool
}

// Pipe makes a stream to the present incarnation of a process.
func (p *Proc) Pipe(to *Proc) *Pipe { return &Pipe{from: p, to: to, start: to.start} }

// Send puts a message into the stream.
func (p *Pipe) Send(do func()) {
	p.waiting = append(p.waiting, do)
	if !p.pumping {
		p.pumping = true
		p.from.e.After(p.from.e.latency(), p.pump)
	}
}

func (p *Pipe) pump() {
	e := p.from.e
	switch {
	case !p.to.up || p.to.start != p.start:
		p.waiting = nil
		return
	case !p.to.awake || e.Cut(p.from.ID, p.to.ID):
		e.After(e.Within(100*ms, 400*ms), p.pump)
		return
	}
	do := p.waiting[0]
	p.waiting = p.waiting[1:]
	do()
	if len(p.waiting) > 0 {
		e.After(ms/10, p.pump)
		return
	}
	p.pumping = false
}
