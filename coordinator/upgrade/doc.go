// Package upgrade raises the feature level of the cluster (package fsm/level) when all coordinators support the next one.
//
// Guarantees. The leader raises the level only to one that every voter and every learner of the current membership has
// said it supports; the state refuses the raise if the membership has changed since. No coordinator is added during a
// raise. With raise: manual only an operator raises the level, except in a cluster that has no nodes and no jobs yet.
//
// Not guaranteed. A coordinator that is restarted with an older version after it was asked stops at the first entry
// above its level. While a coordinator does not answer, the level stays as it is.
package upgrade
