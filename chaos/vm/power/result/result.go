package result

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Promise is one that a power cut must not break.
type Promise string

// The promises; the names are those of the figures.
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

// promises in the order of the figures, and what each says.
var promises = []struct {
	name Promise
	says string
}{
	{Missing, "what was acknowledged is there"},
	{Changed, "what was acknowledged is what was sent"},
	{WentBack, "what was read, and what agents keep, never goes back"},
	{Doubled, "no key makes two jobs"},
	{Torn, "every file is whole"},
	{WrongEnd, "every job ends as it must, and exit codes are exact"},
	{DoubleLive, "no job has two live processes of one rank"},
	{Dead, "the cluster comes back by itself"},
}

// Figures of a result, in their order; docs/operate/powercut.md says what they count.
var Figures = []string{
	"cuts", "acknowledged", "reads", "calls", "canceled", "checkpoints", "quarantined", "enabled", "limits", "tokens", "lives", "lost_again",
	"files", "entries", "snapshots", "epochs", "rosters", "checkpoints_read", "exits", "exits_unsynced", "boot_p50_ms", "ready_p50_ms",
}

// Result collects broken promises, and counts what was held against them. It is safe for concurrent use.
type Result struct {
	mu     sync.Mutex
	broken map[Promise][]string
	counts map[string]int
}

// New returns one in which every promise is kept.
func New() *Result {
	return &Result{broken: map[Promise][]string{}, counts: map[string]int{}}
}

// maxTold bounds what is kept of one promise: the first ones tell most.
const maxTold = 20

// Break notes a broken promise.
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

// Broken is how many times a promise was broken, all promises together.
func (v *Result) Broken() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range promises {
		n += v.counts[string(p.name)]
	}
	return n
}

// Promises names all of them, in their order.
func Promises() (names []Promise) {
	for _, p := range promises {
		names = append(names, p.name)
	}
	return names
}

// BrokenPromises names the promises that are broken.
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

// Tell writes what is broken.
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

// String is the line of figures: first the counts, then the promises.
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
