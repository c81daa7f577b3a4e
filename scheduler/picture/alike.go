package picture

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// GangKind returns the same text for nodes that a gang may use together: those with equal GPUs and, with
// domains.Same, in the same domain. So the victims of a gang make room in one domain, even if segments would allow
// several.
func GangKind(s *work.Shape, n *work.Node) string {
	kind := hardware.Equal(n.GPUs, s)
	if s.Between != domains.Same {
		return kind
	}
	if in := n.Labels[s.Level]; in != "" {
		return kind + " in " + in
	}
	return kind + " only " + n.ID
}
