// Package upgrade raises the feature level of the cluster (package fsm/level) when all coordinators support the next one.
//
// Guarantees. The leader raises the level only to one that every voter and every learner has said it supports, in the
// membership that is in force; the state refuses the raise when the membership has changed since. While it is raised, no
// coordinator is added. With raise: manual only an operator raises it, except in a cluster that has no nodes and no jobs yet.
//
// Not guaranteed. A coordinator that is started again with an older version after it was asked stops at the first entry
// above its level. One that does not answer is not waited for in any other way: the level stays as it is.
package upgrade
