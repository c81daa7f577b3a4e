// Package graph has the drawing of a flow: FlowGraph v2, the JSON that the designer of ScaiFlow edits and stores. Nothing here has
// side effects.
//
// A [Graph] has nodes of the kinds of the table in kinds.go, and edges between their ports. Parse reads one, Check says what is wrong
// with it as a drawing: fields, ports, entries, cycles. Package compile makes a program of it, and says what is wrong with that.
//
// The kinds, their ports and their published fields are those of ScaiFlow. Fields that were never published are ours, and marked so in
// the table.
package graph
