// Package accounts keeps what users have had of the cluster: an account for each user of a tenant in a queue, whose sums
// decay, so that what was used long ago counts less.
//
// An account has, for GPUs, CPUs and memory, the sum of amount times time, in which what is a half-life old counts half,
// two half-lives a quarter. Divided by its limit when one unit is held for ever, the sum is a mean: how much the user
// held lately. It is brought up to date only when what the user holds changes, so an entry of the log touches the accounts
// of the jobs in it and no others.
//
// All of it is integers, and the same on every replica. Floating point would not be: compilers fuse multiplications
// with additions on some processors and not on others.
package accounts
