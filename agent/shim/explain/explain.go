// Package explain finds out why a command failed: from the end of its stderr, and from the log of the kernel.
//
// Contract: LastLine, FullGPU and KernelKilled are asked once, when the command has ended and its output was read. They change
// nothing.
//
// Not guaranteed: that the reason is found. A program that says nothing has none, and the log of the kernel may not be readable.
package explain
