package sim

// proc is a process at an end of a link.
type proc struct {
	id    int
	name  string
	up    bool // it was started, and has not died
	awake bool // it is not stopped
	start uint64
}

func (p *proc) live() bool { return p.up && p.awake }

func (w *world) isCut(from, to int) bool { return w.cut[from*w.procs+to] }

func (w *world) setCut(from, to int, cut bool) {
	if from != to {
		w.cut[from*w.procs+to] = cut
	}
}

// latency is the time that a message takes.
func (w *world) latency() int64 {
	if !w.healed && w.chance(w.knobs.late) {
		return w.within(20*ms, 1500*ms)
	}
	return w.within(ms/2, 12*ms)
}

// send brings one message to a process, at most once unless it is doubled. A process that is stopped gets it when it goes
// on; one that died never does.
func (w *world) send(from, to *proc, do func()) {
	if !w.healed && w.chance(w.knobs.loss) {
		return
	}
	start := to.start
	copies := 1
	if !w.healed && w.chance(w.knobs.double) {
		copies = 2
	}
	for range copies {
		w.after(w.latency(), func() {
			if !w.isCut(from.id, to.id) {
				w.hand(to, start, do)
			}
		})
	}
}

func (w *world) hand(to *proc, start uint64, do func()) {
	switch {
	case !to.up || to.start != start:
	case !to.awake:
		w.after(100*ms, func() { w.hand(to, start, do) })
	default:
		do()
	}
}

// pipe is one direction of a stream: what is sent comes in order, as late as the link is cut, or not at all.
type pipe struct {
	w        *world
	from, to *proc
	start    uint64
	waiting  []func()
	pumping  bool
}

func (w *world) pipe(from, to *proc) *pipe {
	return &pipe{w: w, from: from, to: to, start: to.start}
}

func (p *pipe) send(do func()) {
	p.waiting = append(p.waiting, do)
	if !p.pumping {
		p.pumping = true
		p.w.after(p.w.latency(), p.pump)
	}
}

func (p *pipe) pump() {
	if !p.to.up || p.to.start != p.start {
		p.waiting = nil
		return
	}
	if !p.to.awake || p.w.isCut(p.from.id, p.to.id) {
		p.w.after(p.w.within(100*ms, 400*ms), p.pump)
		return
	}
	do := p.waiting[0]
	p.waiting = p.waiting[1:]
	do()
	if len(p.waiting) > 0 {
		p.w.after(ms/10, p.pump)
		return
	}
	p.pumping = false
}
