// Package outputs owns the directories in which jobs write that name no output directory: where they are, which of them tasks
// use, and when they go.
//
// Contract: Dirs.Of says where an attempt writes and where the checkpoints of its job are; Use and Leave frame a task's use of
// them; a Cleaner removes what nobody needs.
//
// Guarantees: a directory that a task uses stays. An empty one goes when its last user has left it. Anything else goes only
// when it was not changed for as long as the operator says, its job has ended, and a coordinator says that it holds no
// registered checkpoint; without that word all stays. What a user named stays for ever.
//
// Not guaranteed: any bound on the space that outputs take.
package outputs
