package session

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/devcluster/ports"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// A component of a cluster on one machine never listens where the ranks of a training meet.
func TestMasterPort_noComponentListensThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &work.Job{ID: ident.Job(rapid.Uint64().Draw(t, "job"))}
		port := int(masterPort(j, rapid.Uint64().Draw(t, "token")))
		if port <= ports.Highest || port >= 32_768 {
			t.Fatalf("port %d: components have %d to %d, and the kernel those from 32768 on", port, ports.Lowest, ports.Highest)
		}
	})
}
