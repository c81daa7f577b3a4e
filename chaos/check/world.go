package check

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Life is the life of one process of a task.
type Life struct {
	Job     string
	Attempt int
	Rank    int
	Token   uint64
	Node    string
	// GPUs are the GPUs that only it may use.
	GPUs []string
	// ResumeFrom is the checkpoint that it resumed from.
	ResumeFrom string

	Started, Ended time.Time // Ended is zero while it lives
	Code           int
	// Why is the reason of its end, for people.
	Why string
	// Lines is the number of lines that it printed.
	Lines int
}

func (l *Life) String() string {
	return fmt.Sprintf("%s attempt %d rank %d (token %d) on %s", l.Job, l.Attempt, l.Rank, l.Token, l.Node)
}

// World tracks the processes that are alive. It checks I1 and I2 on the processes that really run, and not on what a
// component believes.
type World struct {
	findings *Findings

	mu   sync.Mutex
	live map[string][]*Life // by job
	gpus map[string]*Life
	all  map[string][]*Life
	n    int
}

// NewWorld returns a World without processes.
func NewWorld(f *Findings) *World {
	return &World{findings: f, live: map[string][]*Life{}, gpus: map[string]*Life{}, all: map[string][]*Life{}}
}

// Start records the start of a process. It is a violation if a process of an earlier attempt of the job is alive, or
// another process of its task, or a process with one of its GPUs.
func (w *World) Start(l Life) *Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Started = time.Now()
	for _, other := range w.live[l.Job] {
		switch {
		case other.Token != l.Token || other.Attempt != l.Attempt:
			w.findings.Add("I2: %s starts while %s lives since %s", &l, other, other.Started.UTC().Format("15:04:05.000"))
		case other.Rank == l.Rank:
			w.findings.Add("I2: %s starts twice", &l)
		}
	}
	// Tokens of a job only grow (I3): a replaced attempt must not start any more.
	for _, other := range w.all[l.Job] {
		if other.Token > l.Token {
			w.findings.Add("I3: %s starts after %s did", &l, other)
			break
		}
	}
	for _, g := range l.GPUs {
		if other := w.gpus[g]; other != nil {
			w.findings.Add("I1: %s starts on %s, which %s still has", &l, g, other)
		}
		w.gpus[g] = &l
	}
	w.live[l.Job] = append(w.live[l.Job], &l)
	w.all[l.Job] = append(w.all[l.Job], &l)
	w.n++
	return &l
}

// End records that no process of it is left.
func (w *World) End(l *Life, code int, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.Ended.IsZero() {
		return
	}
	l.Ended, l.Code, l.Why = time.Now(), code, why
	kept := w.live[l.Job][:0]
	for _, other := range w.live[l.Job] {
		if other != l {
			kept = append(kept, other)
		}
	}
	if w.live[l.Job] = kept; len(kept) == 0 {
		delete(w.live, l.Job)
	}
	for _, g := range l.GPUs {
		if w.gpus[g] == l {
			delete(w.gpus, g)
		}
	}
}

// Lives returns copies of all processes that a job ever had, in the order of their starts.
func (w *World) Lives(job string) []Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Life
	for _, l := range w.all[job] {
		all = append(all, *l)
	}
	return all
}

// Live returns the number of living processes, and the number of all processes so far.
func (w *World) Live() (live, ever int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.live {
		live += len(l)
	}
	return live, w.n
}

// LiveOf returns copies of the living processes of a job.
func (w *World) LiveOf(job string) []Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Life
	for _, l := range w.live[job] {
		all = append(all, *l)
	}
	return all
}

// Uses returns the number of living processes that have the whole GPU.
func (w *World) Uses(gpu string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gpus[gpu] != nil {
		return 1
	}
	return 0
}

// Story describes the processes of a job, one per line.
func (w *World) Story(job string) string {
	var b strings.Builder
	for _, l := range w.Lives(job) {
		end := "lives"
		if !l.Ended.IsZero() {
			end = fmt.Sprintf("%s, code %d: %s", l.Ended.UTC().Format("02 15:04:05.000"), l.Code, l.Why)
		}
		fmt.Fprintf(&b, "  %s: %s to %s\n", &l, l.Started.UTC().Format("02 15:04:05.000"), end)
	}
	return b.String()
}
