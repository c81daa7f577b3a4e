//go:build !mind_next

package level

// Newest is the highest level that this version of mind supports.
const Newest Level = 1
