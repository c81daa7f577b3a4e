// Package result counts the checks of the promises that a power cut must not break, and collects violations.
package result
