// Package policy has the policy of the scheduler: what operators may set about how it decides, the bounds of each value, the
// default, and what a change changes.
//
// There is one policy for the whole cluster, and a row of it only after somebody has set one.
package policy
