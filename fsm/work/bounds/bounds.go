// Package bounds has what a tenant may have in the state although no operator has set a limit: so much that nobody reaches it with
// work that is meant, and so little that one tenant alone cannot fill the memory of the coordinators.
//
// A submission is a job, or a whole job array, and costs a row. Its spec, the request of its user, is the large part of the row.
// Only submissions that are not over are counted; package figures keeps the sums. A quota sets other bounds, or none.
package bounds

import "github.com/mindcoordinator/mind/fsm/level"

// Gate opens the bounds, and the fields of a quota that change them.
var Gate = level.NewGate(level.Released+1, "bounds of what a tenant may have waiting (mind quota set --max-submissions)")

const (
	// Submissions is how many unfinished ones a tenant may have.
	Submissions = 10_000
	// SpecMB is how many MiB their specs may have together.
	SpecMB = 256
	// EvaluationSpec is the most bytes of the spec of an evaluation that stays when that of another job would be dropped.
	EvaluationSpec = 4096
	// None, as a limit of a quota, is no bound.
	None = -1
)

// Of is the bound that a limit of a quota stands for; nil is the default. false: there is none.
func Of(limit *int32, byDefault int) (most int, bounded bool) {
	if limit == nil {
		return byDefault, true
	}
	return int(*limit), *limit >= 0
}
