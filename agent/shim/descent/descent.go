// Package descent finds the processes of a task by their parents, sessions and signal handlers, in /proc, and collects their ends.
//
// Not guaranteed: that nothing is missed. A process may fork during a search, so a caller that ends processes repeats it.
package descent
