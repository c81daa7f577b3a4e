// Package domains says how the nodes of a job lie to each other: the levels of domains between nodes, what a job may ask of
// them, and which nodes it leaves out.
//
// A domain is the nodes with the same value of a label: those of one NVLink clique, or behind one leaf switch. A node
// without the label is in no domain of that level.
package domains
