// Package target says which cluster a command means, and with which token: from flags, variables, a `mind dev`, or a context of
// the user's configuration, in this order.
//
// A token that was found with one address is never sent to another.
package target
