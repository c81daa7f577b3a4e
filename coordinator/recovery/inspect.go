package recovery

import (
	"fmt"
	"io"
	"os"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode/recovery"
)

// SavedState describes a saved state.
type SavedState struct {
	recovery.Saved
	Nodes        int            `json:"nodes"`
	Jobs         map[string]int `json:"jobs"`
	Queues       int            `json:"queues"`
	Tokens       int            `json:"tokens"`
	Coordinators int            `json:"coordinators"`
	// Broken lists the violated invariants.
	Broken []string `json:"broken"`
}

// Inspect reads and verifies a saved state.
func Inspect(file string) (*SavedState, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, about, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := &SavedState{Saved: about, Nodes: v.NodeCount(), Jobs: map[string]int{}, Broken: fsm.Check(v)}
	if got := replica.HashText(v.Hash()); got != about.Hash {
		out.Broken = append(out.Broken, fmt.Sprintf("the state has the hash %s and should have %s", got, about.Hash))
	}
	for state, n := range v.Counts() {
		if n > 0 {
			out.Jobs[v1.JobState_Value(state).String()] = n
		}
	}
	for range v.Queues() {
		out.Queues++
	}
	for range v.Coordinators() {
		out.Coordinators++
	}
	out.Tokens = v.TokenCount()
	return out, nil
}

// Read reads a saved state, as [Service.SaveSnapshot] sends it, and verifies that it is complete and not damaged.
func Read(from io.Reader) (*fsm.View, recovery.Saved, error) {
	machine := fsm.New()
	about, err := recovery.Load(from, replica.Hosted{Machine: machine})
	if err != nil {
		return nil, about, err
	}
	return machine.View(), about, nil
}
