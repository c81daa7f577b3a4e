// Package target finds the cluster and the token that a command uses: from flags, environment variables, a `mind dev`, or a
// context of the user's configuration, in this order.
//
// A token that was found with one address is never sent to another.
package target
