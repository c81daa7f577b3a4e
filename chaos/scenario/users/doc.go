// Package users is what a cluster has to do during an attack, and whether it did: steady jobs that run all through it, clients
// that submit short ones meanwhile, and a crowd that watches one log.
//
// Everything is submitted under an idempotency key until its outcome is known. What the cluster says in the end is held against
// what the processes of the jobs left outside of it. It works through REST alone, and breaks nothing.
package users
