package ledger

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
)

// gpu is a GPU in the list of nodes.
type gpu struct {
	UUID   string `json:"uuid"`
	Index  int    `json:"index"`
	Health string `json:"health"`
	Reason string `json:"health_reason"`
	JobID  string `json:"job_id"`
}

// Node is a node in the list of nodes.
type Node struct {
	ID     string `json:"node_id"`
	State  string `json:"state"`
	Roster bool   `json:"roster_current"`
	GPUs   []gpu  `json:"gpus"`
}

// brokenGPU is a GPU that was made to fail.
type brokenGPU struct {
	node  string
	stage stage
}

// stage is the stage of a GPU that was made to fail.
type stage int

const (
	Breaking stage = iota // it was not seen quarantined yet
	Aside                 // it was seen quarantined, and must stay so
	Enabling              // its node was enabled, or may have been
	back                  // it was seen healthy after that, and must stay so
)

// Healthy is the health of a usable GPU; fault is the simulated fault, and faultWord is a word in the reason of a
// quarantine because of it.
const (
	Healthy   = "HEALTHY"
	Fault     = "xid 79"
	faultWord = "xid"
)

// Breaking records that a GPU is about to fail.
func (l *Ledger) Breaking(node string, g gpu) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registers.gpus[g.UUID] = &brokenGPU{node: node}
}

// ReadNodes lists the nodes. It checks that a GPU that was seen quarantined stays so until its node is enabled, and is
// not quarantined again after that.
func (l *Ledger) ReadNodes(ctx context.Context, rest *procs.REST) ([]Node, error) {
	l.mu.Lock()
	before := map[string]stage{}
	for uuid, b := range l.registers.gpus {
		before[uuid] = b.stage
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	if err := rest.Get(ctx, "/cluster/nodes", &answer); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range answer.Nodes {
		for _, g := range n.GPUs {
			b := l.registers.gpus[g.UUID]
			if b == nil || b.stage != before[g.UUID] {
				continue // its stage has changed while the nodes were read
			}
			l.sawGPU(n, g, b)
		}
	}
	return answer.Nodes, nil
}

func (l *Ledger) sawGPU(n Node, g gpu, b *brokenGPU) {
	// It may also be quarantined for another reason that ends by itself.
	ok, failed := g.Health == Healthy, g.Health != Healthy && strings.Contains(strings.ToLower(g.Reason), faultWord)
	switch {
	case b.stage == Breaking && failed:
		b.stage = Aside
		l.result.Count("quarantined", 1)
		l.told(Quarantined)
	case b.stage == Aside && ok:
		l.result.Break(result.Missing, "GPU %s was quarantined, and is %s", g.UUID, g.Health)
		delete(l.registers.gpus, g.UUID)
	case b.stage == Enabling && ok:
		b.stage = back
		l.result.Count("enabled", 1)
	case b.stage == back && failed:
		l.result.Break(result.WentBack, "GPU %s was given back when %s was enabled, and is %s (%s)", g.UUID, n.ID, g.Health, g.Reason)
		delete(l.registers.gpus, g.UUID)
	}
}

// Enable enables a node, so that its GPUs can be used again.
func (l *Ledger) Enable(ctx context.Context, rest *procs.REST, node string) error {
	l.mu.Lock()
	for _, b := range l.registers.gpus {
		if b.node == node && b.stage <= Aside {
			b.stage = Enabling
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if err := rest.Do(ctx, http.MethodPost, "/cluster/nodes/"+node+"/enable", nil, map[string]any{}, nil); err != nil {
		return fmt.Errorf("enabling %s: %w", node, err)
	}
	return nil
}

// BrokenOf returns the UUIDs of the GPUs of a node in a stage.
func (l *Ledger) BrokenOf(node string, s stage) (uuids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uuid, b := range l.registers.gpus {
		if b.node == node && b.stage == s {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}
