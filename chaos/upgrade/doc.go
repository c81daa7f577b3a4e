// Package upgrade upgrades a cluster of real processes from an earlier version of mind to this one, under load: one
// coordinator after the other, in every order, with the leader killed after every step, and back again for as long as the
// feature level was not raised. It is `make upgrade`.
//
// It needs the history of the repository, from which it builds the earlier version.
package upgrade
