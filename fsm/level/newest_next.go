//go:build mind_next

package level

// Newest is one more than this version of mind supports: with the build tag mind_next, tests upgrade a cluster to a level that
// is not there yet.
const Newest Level = 2

var _ = NewGate(Newest, "the level that tests upgrade to")
