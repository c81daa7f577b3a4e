// Package shim is the parent of one task's processes: the same executable as
// the agent, started again as "mind shim --dir DIR".
//
// Contract: the agent makes a directory, writes the Spec into it and starts a
// shim with a listening unix socket as file descriptor 3. The shim starts the
// command in a session of its own, keeps what it prints (package tasklog),
// stops it when told so, kills whatever it leaves behind, and writes exit.json.
//
// Guarantees: the shim outlives the agent. At most one shim ever runs the
// command of a directory (a lock on the directory, and a file that says that
// the command was begun). exit.json is written only after every process that
// descends from the command is gone: the shim is their subreaper, so "no child
// left" is a fact that the kernel states, not a scan that may miss somebody.
// The task is not blocked by a full disk.
//
// Not guaranteed: processes that the command had started by others (a
// container daemon, a service manager) are not the task's. When the shim
// itself is killed, its command is killed with it, and the exit is unknown.
// After a power cut the record may be gone or cut off; nobody needs it then.
//
// # Start cost
//
// A shim is started for every task, so its start is on the path of every
// launch, and the executable is big: initialising protobuf, gRPC and
// Prometheus costs more than all the shim does. Go initialises packages in the
// order of their import paths as soon as their imports are initialised, so a
// package that imports little comes early. This one runs the whole shim in its
// init function and exits there; the packages after it are never initialised.
// It holds as long as the package imports little beyond what os itself needs:
// bytes, strconv and time are fine; strings (it comes after reflect, and half
// of the library comes between), fmt, encoding/json, context, net, os/exec,
// os/signal, path/filepath and anything outside the standard library are not.
// A test asserts it.
package shim

// The process is short, but its start is not free even so. So an agent starts
// shims before there is a task for them, and gives those whose task has ended
// another: "mind shim --dir PARENT --wait" waits for the name of its task
// directory, does so again after the task, and ends with the agent's connection.

// Command is the first argument that makes the executable a shim.
const Command = "shim"

// Flags of the command.
const (
	DirFlag  = "--dir"
	WaitFlag = "--wait"
)

// SocketFD is where the shim finds its listening socket.
const SocketFD = 3
