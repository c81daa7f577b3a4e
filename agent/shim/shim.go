// Package shim is the parent of one task's processes: the same executable as the agent, started again as "mind shim --dir
// DIR".
//
// Contract: the agent creates a directory, writes the Spec into it and starts a shim with a listening unix socket as
// file descriptor 3. The shim starts the command in its own session, stores its output (package tasklog), stops it on
// request, kills processes that it leaves behind, and writes exit.json.
//
// Guarantees: the shim outlives the agent. At most one shim ever runs the command of a directory (a lock on the
// directory, and a record that the command was begun). exit.json is written only after every descendant of the command
// is gone: the shim is their subreaper, so the kernel itself reports "no child left"; unlike a scan, this cannot miss a
// process. A full disk does not block the task.
//
// Not guaranteed: processes that the command started through others (a container daemon, a service manager) do not
// belong to the task. If the shim itself is killed, its command is killed with it, and the exit is unknown. After a
// power cut the record may be missing or incomplete; it is not needed then.
//
// # Start cost
//
// A shim is started for every task, so its start delays every launch, and the executable is big: initialising protobuf,
// gRPC and Prometheus costs more than all work of the shim. Go initialises packages in the order of their import paths
// as soon as their imports are initialised, so a package that imports little comes early. This one runs the whole shim
// in its init function and exits there; the packages after it are never initialised. That works as long as the package
// imports little beyond the imports of os: bytes, strconv and time are fine; strings (it comes after reflect, and half
// of the library comes between), fmt, encoding/json, context, net, os/exec, os/signal, path/filepath and anything
// outside the standard library are not. A test asserts it.
package shim

// The start of a process costs time even if it is small. So an agent starts shims before there is a task for them, and
// reuses shims whose task has ended: "mind shim --dir PARENT --wait" waits for the name of its task directory, waits
// again after the task, and ends with the agent's connection.

// Command is the first argument that makes the executable a shim.
const Command = "shim"

// Flags of the command.
const (
	DirFlag  = "--dir"
	WaitFlag = "--wait"
)

// SocketFD is the file descriptor of the shim's listening socket.
const SocketFD = 3
