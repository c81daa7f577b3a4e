package scheduler

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// gangKind is the same for nodes that a gang may be on together: those with the same GPUs and, with domains.Same, in the
// same domain. So who is stopped for a gang makes room in one domain, also where segments would allow several.
func gangKind(s *work.Shape, n *work.Node) string {
	kind := gpuKind(n)
	if s.Between != domains.Same {
		return kind
	}
	if in := n.Labels[s.Level]; in != "" {
		return kind + " in " + in
	}
	return kind + " only " + n.ID
}
