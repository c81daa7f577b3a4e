// Package guest is the program inside a virtual machine of package vm: its process 1, and the agent through which the
// host runs commands there.
//
// Contract: Main is the main function of a program that the kernel starts as /init. It mounts the usual file systems,
// loads the kernel modules in ModuleDir in the order of their names, sets up the network of qemu's user mode, and
// serves HTTP on Port: see Command, Started, Await and Status. It mounts no disks; the host requests that.
//
// Guarantees: orphaned processes are reaped. A command ends with the connection over which it was requested; a process
// that was started in the background keeps running. PowerOff ends all processes and unmounts all file systems before it
// switches the machine off.
//
// Not guaranteed: any protection. Anyone who reaches the port is root in the machine.
package guest

import "time"

// The address of the agent, and the folder of the kernel modules in the initial file system.
const (
	Port      = 4000
	ModuleDir = "/boot/modules"
	// Address is the address of the machine in qemu's user network, HostAddress that of its host.
	Address     = "10.0.2.15"
	HostAddress = "10.0.2.2"
)

// ReadyWord is printed on the console as soon as the agent listens.
const ReadyWord = "guest: ready"

// Command is a program to run. It is looked up in PATH.
type Command struct {
	Argv []string `json:"argv"`
	// Env is added to the variables of the agent, Dir defaults to /.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// Stdin is the input of a command in the foreground; Log is the file for the output of one in the background.
	Stdin []byte `json:"stdin,omitempty"`
	Log   string `json:"log,omitempty"`
}

// Result is the result of a command.
type Result struct {
	// Code is the exit code, or 128 and the signal that ended it.
	Code   int    `json:"code"`
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
}

// Started identifies a process in the background.
type Started struct {
	PID int `json:"pid"`
}

// Await is a request to wait for a file.
type Await struct {
	// Pattern is a pattern of filepath.Glob.
	Pattern string `json:"pattern"`
}

// Status is the status of a machine.
type Status struct {
	Kernel string `json:"kernel"`
	BootID string `json:"boot_id"`
	// Up is how long the kernel had been running at the time of the request.
	Up time.Duration `json:"up"`
	// Ready is how long the kernel had been running when the agent began to listen.
	Ready time.Duration `json:"ready"`
}

// Fault is the body of an answer that is not 200.
type Fault struct {
	Error string `json:"error"`
}
