package result

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Promise is a promise that a power cut must not break.
type Promise string

// The promises. Their names are the names of figures.
const (
	Missing    Promise = "missing"
	Changed    Promise = "changed"
	WentBack   Promise = "went_back"
	Doubled    Promise = "doubled"
	Torn       Promise = "torn"
	WrongEnd   Promise = "wrong_end"
	DoubleLive Promise = "double_live"
	Dead       Promise = "dead"
)

// promises are in the order of the figures, with their meanings.
var promises = []struct {
	name Promise
	says string
}{
	{Missing, "every acknowledged object is still there"},
	{Changed, "every object is as it was sent"},
	{WentBack, "no object, and no number of an agent, goes back to an earlier state"},
	{Doubled, "no key makes two jobs"},
	{Torn, "every file is whole"},
	{WrongEnd, "every job ends as it must, and exit codes are exact"},
	{DoubleLive, "no job has two live processes of one rank"},
	{Dead, "the cluster comes back by itself"},
}

// Figures are the figures of a result, in order; docs/operate/powercut.md explains them.
var Figures = []string{
	"cuts", "acknowledged", "reads", "calls", "canceled", "checkpoints", "quarantined", "enabled", "limits", "tokens", "lives", "lost_again",
	"files", "entries", "snapshots", "epochs", "rosters", "checkpoints_read", "exits", "exits_unsynced", "boot_p50_ms", "ready_p50_ms",
}

// Result collects broken promises, and counts the checks. It is safe for concurrent use.
type Result struct {
	mu     sync.Mutex
	broken map[Promise][]string
	counts map[string]int
}

// New returns a result without broken promises.
func New() *Result {
	return &Result{broken: map[Promise][]string{}, counts: map[string]int{}}
}

// maxTold limits the kept violations of one promise: the first ones are the most useful.
const maxTold = 20

// Break records a broken promise.
func (v *Result) Break(p Promise, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts[string(p)]++
	if len(v.broken[p]) < maxTold {
		v.broken[p] = append(v.broken[p], fmt.Sprintf(format, args...))
	}
}

// Count adds to one of the figures.
func (v *Result) Count(figure string, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts[figure] += n
}

// Broken returns how many times promises were broken, all promises together.
func (v *Result) Broken() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range promises {
		n += v.counts[string(p.name)]
	}
	return n
}

// Promises returns all promises, in order.
func Promises() (names []Promise) {
	for _, p := range promises {
		names = append(names, p.name)
	}
	return names
}

// BrokenPromises returns the broken promises.
func (v *Result) BrokenPromises() (names []Promise) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range promises {
		if len(v.broken[p.name]) > 0 {
			names = append(names, p.name)
		}
	}
	return names
}

// Tell writes the violations.
func (v *Result) Tell(w io.Writer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range promises {
		n := v.counts[string(p.name)]
		if n == 0 {
			continue
		}
		fmt.Fprintf(w, "BROKEN  %s: %d times\n", p.says, n)
		for _, text := range v.broken[p.name] {
			fmt.Fprintf(w, "        %s\n", text)
		}
		if more := n - len(v.broken[p.name]); more > 0 {
			fmt.Fprintf(w, "        and %d more\n", more)
		}
	}
}

// String returns the line of figures: first the counts, then the promises.
func (v *Result) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, figure := range Figures {
		all = append(all, fmt.Sprintf("%s=%d", figure, v.counts[figure]))
	}
	for _, p := range promises {
		all = append(all, fmt.Sprintf("%s=%d", p.name, v.counts[string(p.name)]))
	}
	return strings.Join(all, " ")
}
