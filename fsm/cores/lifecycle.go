package cores

// Status says how a Core stands. The names are published.
type Status uint8

// The states.
const (
	Created Status = iota + 1
	Starting
	Running
	Paused
	Stopping
	Stopped
	Error
	Crashed
	Restarting
)

var statusNames = map[Status]string{
	Created: "created", Starting: "starting", Running: "running", Paused: "paused", Stopping: "stopping",
	Stopped: "stopped", Error: "error", Crashed: "crashed", Restarting: "restarting",
}

// String is the state as users see it.
func (s Status) String() string { return statusNames[s] }

// Valid says whether there is such a state.
func (s Status) Valid() bool { return statusNames[s] != "" }

// Action is something that moves a Core from one state to another.
type Action uint8

// The actions. The last four are those of the coordinator that leads.
const (
	Start Action = iota + 1
	Stop
	Restart
	Pause
	Resume
	Ready
	Halted
	Fail
	Crash
)

var actionNames = map[Action]string{
	Start: "start", Stop: "stop", Restart: "restart", Pause: "pause", Resume: "resume",
	Ready: "ready", Halted: "halted", Fail: "fail", Crash: "crash",
}

// String is the action as users see it.
func (a Action) String() string { return actionNames[a] }

// transitions is the lifecycle. It has all published transitions: an Error ends by a start, a Crash by a restart. That a stopped Core
// starts again, and that each state but Created can be stopped, is Mind's choice.
var transitions = map[Status]map[Action]Status{
	Created:    {Start: Starting},
	Starting:   {Ready: Running, Fail: Error, Stop: Stopping},
	Running:    {Stop: Stopping, Restart: Restarting, Pause: Paused, Fail: Error, Crash: Crashed},
	Paused:     {Resume: Running, Stop: Stopping, Restart: Restarting},
	Stopping:   {Halted: Stopped},
	Stopped:    {Start: Starting, Restart: Restarting},
	Error:      {Start: Starting, Restart: Restarting, Stop: Stopping},
	Crashed:    {Restart: Restarting, Stop: Stopping},
	Restarting: {Ready: Running, Fail: Error, Stop: Stopping},
}

// After returns the state that an action leads to; false: it is not allowed in this state.
func (s Status) After(a Action) (Status, bool) {
	to, ok := transitions[s][a]
	return to, ok
}

// Removable says whether a Core of this state may be deleted: not one that runs, starts or stops, nor one with an error that
// nobody has looked at.
func (s Status) Removable() bool { return s == Created || s == Stopped || s == Crashed }
