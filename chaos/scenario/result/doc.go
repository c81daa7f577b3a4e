// Package result is what an attack found: which promises were broken, and how long writes had to wait.
//
// What was not judged counts as unknown, never as kept.
package result
