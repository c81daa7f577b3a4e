// Package ledger records the knowledge of a cluster's clients across power cuts: the requests that they sent, the
// acknowledgements, and the answers, about jobs and other objects (checkpoints, quarantined GPUs, limits, tokens).
//
// Every call of a client goes through it. Each answer is compared with the knowledge at the time of the request; a
// contradiction is a broken promise. A call without an answer may have been carried out or not. The ledger never
// forgets.
package ledger
