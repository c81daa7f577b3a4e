// Package expr evaluates the expressions of flows, which are conditions and values, against named values within a budget.
// Package syntax parses them; docs/use/expressions.md describes the language.
//
// Evaluation is a pure function of the expression, the names and the budget: no clock, no random numbers, and maps in
// the order of their keys. It never panics, and makes no more than the budget allows. A result may share memory with the
// names, so neither may be changed afterwards.
//
// # Values
//
// A value is nil, a bool, an int64, a finite float64, a string of UTF-8, a []any or a map[string]any of values. Check
// says whether something is a value, and Normalize makes one of what encoding/json decodes. The values that Names
// returns have to be values; an operator that meets anything else fails with the code TYPE.
package expr
