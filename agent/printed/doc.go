// Package printed makes metrics of the lines that a task prints, for programs that were not written for Mind.
//
// Contract: a Reader reads the log of one task, and appends a line to the task's metrics file for each line that looks
// like the report of a training (see Patterns). Only one goroutine may use it. It touches the metrics file only while
// nobody else has: from the moment at which the program makes or writes the file, the Reader is done.
//
// Guarantees: each printed line counts once, whenever the agent dies. At most 10 lines a second are kept, the newest
// ones. Only finite numbers are kept, and the losses that are not finite any more, as NaN. One look reads a bounded part of the log.
//
// Not guaranteed: that a line counts that its program prints in pieces with more than a second between them. The log has
// them as several lines.
package printed
