// Package compile makes a program of a drawing, and a drawing of a manifest. Nothing here has side effects.
//
// [Program] compiles to the intermediate form that Cores run, [Manifest] to the YAML that ScaiFlow deploys; [Import] reads such YAML.
// Both are made from the same tree of steps, so they cannot differ in what runs when.
//
// Structure. Edges are gotos, and programs have none: a decision's branches end where they meet, a parallel's branches where they
// join, a loop's body where it comes back to the loop. A node at which some of the branches meet, and others pass it by, has no place
// in such a program: the finding CROSSING names it.
//
// Names. The result of a node is bound to its id, and to its result_binding or else to its label in lower case.
package compile
