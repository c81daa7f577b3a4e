// Package ledger is what the clients of a cluster know across power cuts: what they sent, what was acknowledged, and what they
// were told, of jobs and of the rest (checkpoints, quarantined GPUs, limits, tokens).
//
// Every call of a client goes through it. Each answer is held against what was known when it was asked for; what contradicts it
// is a broken promise of the result. A call without an answer may have been carried out or not. Nothing is ever forgotten.
package ledger
