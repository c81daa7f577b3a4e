package engine

import "time"

const (
	ms       = int64(time.Millisecond)
	maxProcs = 16
)

// Weather is what happens to messages in flight, by probability.
type Weather struct {
	// Loss and Double are of single messages. Late ones take up to 1.5 s.
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

// Procs is how many there are.
func (e *Engine) Procs() int { return len(e.procs) }

// Start starts a process that is not up.
func (p *Proc) Start() {
	p.start++
	p.up, p.awake = true, true
}

// Die ends it. What was to happen in it does not happen any more.
func (p *Proc) Die() { p.up = false }

// Freeze stops it as SIGSTOP does, until Thaw.
func (p *Proc) Freeze() { p.awake = false }

// Thaw has it go on.
func (p *Proc) Thaw() { p.awake = true }

// Up says whether it was started and has not died, Live whether it is not frozen either.
func (p *Proc) Up() bool { return p.up }

// Live says whether it is up and not frozen.
func (p *Proc) Live() bool { return p.up && p.awake }

// After has this process do something, unless it dies before.
func (p *Proc) After(d int64, do func()) {
	start := p.start
	p.e.After(d, func() { p.hand(start, do) })
}

// Every has this process do something again and again.
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

// Cut says whether nothing goes from one process, by its ID, to another.
func (e *Engine) Cut(from, to int) bool { return e.cut[from*maxProcs+to] }

// SetCut cuts a link in one direction, or mends it.
func (e *Engine) SetCut(from, to int, cut bool) {
	if from != to {
		e.cut[from*maxProcs+to] = cut
	}
}

// Mend mends each cut link with a probability.
func (e *Engine) Mend(p float64) {
	for i := range e.cut {
		e.cut[i] = e.cut[i] && !e.Chance(p)
	}
}

// Linked says whether messages go both ways.
func (e *Engine) Linked(a, b *Proc) bool { return !e.Cut(a.ID, b.ID) && !e.Cut(b.ID, a.ID) }

// Reach says whether two processes hear each other, directly or through one other.
func (e *Engine) Reach(a, b *Proc) bool {
	path := e.Linked(a, b)
	for i := 0; !path && i < len(e.procs); i++ {
		m := e.procs[i]
		path = m.Live() && m != a && m != b && e.Linked(a, m) && e.Linked(m, b)
	}
	return path
}

// latency is the time that a message takes.
func (e *Engine) latency() int64 {
	if e.Chance(e.Weather.Late) {
		return e.Within(20*ms, 1500*ms)
	}
	return e.Within(ms/2, 12*ms)
}

// Send brings one message to a process, at most once unless it is doubled. A process that is frozen gets it when it goes on;
// one that died never does.
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

// Pipe is one direction of a stream: what is sent comes in order, as late as the link is cut, or not at all.
type Pipe struct {
	from, to *Proc
	start    uint64
	waiting  []func()
	pumping  bool
}

// Pipe makes a stream to a process as it is started now.
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
