// Package shim is the parent of one task's processes: "mind shim --dir DIR".
package shim

// Command is the first argument that makes the executable a shim.
const Command = "shim"
