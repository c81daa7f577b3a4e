package launch

import (
	"path/filepath"
	"slices"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/safedir"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// opened returns the paths that a task may read beside its own directories and those that every task reaches. Data that was found
// for it has been judged. The name of a model and the path of a checkpoint have not: a job can name any path as either, and change
// where a path leads. So they open only what lies in the directories that the operator has listed for data. All paths are absolute and
// without links.
func (l *Launcher) opened(spec *v1.TaskSpec, data *inputs.Data, named ...string) []string {
	fetched, local := data.Dirs()
	read := append(absolute(append(fetched, l.Outputs.Tenant(spec.GetTenantId()))), local...) // a link that was put there since opens nothing
	roots := resolved(l.Roots)
	// A private directory stays private, unless it was listed itself.
	listed := slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return !l.Private.Holds(root) })
	for _, path := range named {
		if !filepath.IsAbs(path) {
			continue
		}
		real, err := private.Resolve(path)
		inside := func(root string) bool { return safedir.Within(real, root) }
		if err == nil && slices.ContainsFunc(roots, inside) && !l.Private.Holds(real, listed...) {
			read = append(read, real)
		}
	}
	return read
}
