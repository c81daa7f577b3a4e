// Package check holds what must always be true of a cluster against what was seen of it. The virtual-time cluster and the
// harness of real processes feed it alike.
//
// Contract: a Findings collects violations. World is told of processes of tasks as they start and end, and knows at once
// when two of one job live that must not. Replicas is told of every view that a coordinator publishes. History records the
// calls of clients; Linearizable says whether one register per job explains them.
//
// Guarantees: nothing is reported that cannot be a bug of the cluster or of what feeds the checker. All are safe for
// concurrent use.
package check

import (
	"fmt"
	"sync"
	"time"
)

// maxFindings bounds what is kept: the first ones tell most.
const maxFindings = 100

// Findings are violations, in the order in which they were noticed.
type Findings struct {
	mu    sync.Mutex
	found []string
	more  int
}

// Add notes a violation.
func (f *Findings) Add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.found) >= maxFindings {
		f.more++
		return
	}
	f.found = append(f.found, time.Now().UTC().Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// All returns them.
func (f *Findings) All() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append([]string(nil), f.found...)
	if f.more > 0 {
		all = append(all, fmt.Sprintf("and %d more", f.more))
	}
	return all
}
