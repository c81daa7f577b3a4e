// Package check checks invariants of a cluster against observations. Both the virtual-time cluster and the harness of
// real processes use it.
//
// Contract: a Findings collects violations. World records the starts and ends of tasks' processes, and detects at once
// if two processes are alive that must not be. Replicas gets every view that a coordinator publishes. History records
// the calls of clients; Linearizable checks whether one register per job explains them.
//
// Guarantees: each finding is a bug of the cluster or of the code that feeds the checker. All types are safe for
// concurrent use.
package check

import (
	"fmt"
	"sync"
	"time"
)

// maxFindings limits the kept findings: the first ones are the most useful.
const maxFindings = 100

// Findings collects violations, in the order in which they were found.
type Findings struct {
	mu    sync.Mutex
	found []string
	more  int
}

// Add records a violation.
func (f *Findings) Add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.found) >= maxFindings {
		f.more++
		return
	}
	f.found = append(f.found, time.Now().UTC().Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// All returns the recorded violations.
func (f *Findings) All() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append([]string(nil), f.found...)
	if f.more > 0 {
		all = append(all, fmt.Sprintf("and %d more", f.more))
	}
	return all
}
