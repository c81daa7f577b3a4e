// Package result holds the result of an attack: the promises that were broken, and how long writes had to wait.
//
// A promise that was not checked counts as unknown, never as kept.
package result
