// Package guest is what runs inside a virtual machine of package vm: its process 1, and the agent through which the host
// runs commands there.
//
// Contract: Main is the whole of a program that the kernel starts as /init. It mounts the usual file systems, loads the
// kernel modules that lie in ModuleDir in the order of their names, sets up the network of qemu's user mode, and answers
// HTTP on Port: see Command, Started, Await and Status. It mounts no disk; the host orders that.
//
// Guarantees: processes that lost their parent are buried. A command ends with the connection of the one who gave it;
// what was started with Start goes on. PowerOff ends all processes and unmounts before it switches off.
//
// Not guaranteed: any protection. Anyone who reaches the port is root in the machine.
package guest

import "time"

// Where the host finds the agent, and where the kernel modules lie in the initial file system.
const (
	Port      = 4000
	ModuleDir = "/boot/modules"
	// Address of the machine in qemu's user network, and that of its host.
	Address     = "10.0.2.15"
	HostAddress = "10.0.2.2"
)

// ReadyWord is on the console as soon as the agent listens.
const ReadyWord = "guest: ready"

// Command is one program to run. The program is looked up in PATH.
type Command struct {
	Argv []string `json:"argv"`
	// Env is added to the variables of the agent, Dir defaults to /.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// Stdin is given to a command that is run; Log takes the output of one that is started.
	Stdin []byte `json:"stdin,omitempty"`
	Log   string `json:"log,omitempty"`
}

// Result is how a command ended.
type Result struct {
	// Code is the exit code, or 128 and the signal that ended it.
	Code   int    `json:"code"`
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
}

// Started names a process that goes on by itself.
type Started struct {
	PID int `json:"pid"`
}

// Await waits for a file.
type Await struct {
	// Pattern is that of path/filepath.
	Pattern string `json:"pattern"`
}

// Status is what the agent says of its machine.
type Status struct {
	Kernel string `json:"kernel"`
	BootID string `json:"boot_id"`
	// Up is how long the kernel had been running when it was asked.
	Up time.Duration `json:"up"`
	// Ready is how long the kernel had been running when the agent began to listen.
	Ready time.Duration `json:"ready"`
}

// Fault is the body of an answer that is not 200.
type Fault struct {
	Error string `json:"error"`
}
