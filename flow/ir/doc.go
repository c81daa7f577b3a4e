// Package ir has the intermediate form of a program: what a Core runs and what the designer compiles to. It is JSON, private to Mind
// (the bytes of published bundles were never described), and nothing here has side effects.
//
// A [Module] has flows, a [Flow] has a body, a body is a list of blocks, and a [Block] is of one of the kinds of the table in kinds.go.
// Parse reads one; what a program may not be although it can be read is for package check to say.
//
// Names. A block's result is bound to its result_binding and to its id. Bodies of if, match, while, try and parallel share the names of
// the body around them; each iteration of a foreach has names of its own, which end with it.
package ir
