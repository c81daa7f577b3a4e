package gpus

import (
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/work"
)

// parent is the UUID of the GPU that a device is, or is a slice of.
func parent(g *work.GPU) string {
	if g.MIG == "" {
		return g.UUID
	}
	uuid, _, _ := strings.Cut(g.Instance, "/")
	return uuid
}

// Redivided says whether a device that is gone was (a slice of) a GPU that is still there, divided in another way.
func Redivided(gone *work.GPU, now []work.GPU) bool {
	of := parent(gone)
	return of != "" && slices.ContainsFunc(now, func(g work.GPU) bool { return (g.MIG != "" || gone.MIG != "") && parent(&g) == of })
}
