// Package result counts what was held against the promises that a power cut must not break, and collects what breaks them.
package result
