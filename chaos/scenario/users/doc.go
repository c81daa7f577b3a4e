// Package users makes the load of a cluster during an attack, and checks the results: steady jobs that run throughout,
// clients that submit short jobs meanwhile, and a crowd that watches one log.
//
// Each submit is repeated under its idempotency key until its outcome is known. At the end the state of the cluster is
// compared with the evidence that the processes of the jobs left outside of it. The package uses only REST, and makes
// no faults.
package users
