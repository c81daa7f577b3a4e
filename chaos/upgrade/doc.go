// Package upgrade upgrades a cluster of real processes from an earlier version of mind to this one, under load: one
// coordinator after the other, in every order, with the leader killed after every step, and back again while the
// feature level was not raised. `make upgrade` runs it.
//
// It builds the earlier version from the history of the repository.
package upgrade
