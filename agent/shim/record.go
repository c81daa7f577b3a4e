package shim

import (
	"encoding/json"
	"os"
)

// Names of the files in a task directory.
const (
	// SpecFile is written by the agent before it starts the shim.
	SpecFile = "task.json"
	// StartedFile appears just before the command is started, and holds its
	// process id soon after.
	StartedFile = "started"
	// BaselineFile lists what was in the checkpoint directory before.
	BaselineFile = "baseline.json"
	// ExitFile is the last thing that the shim writes.
	ExitFile = "exit.json"
	// LogDir holds the log of the task.
	LogDir = "log"
	// SocketFile is where the shim listens.
	SocketFile = "sock"
	// ErrorFile takes what the shim itself has to say when it breaks.
	ErrorFile = "shim.err"
)

// Failures that a shim can tell; the names are those of ErrorType in the api.
const (
	FailureNone       = ""
	FailureCwdMissing = "CWD_MISSING"
	FailureLaunch     = "LAUNCH_FAILED"
	FailureOOM        = "OOM"
	FailureInternal   = "INTERNAL"
)

// Spec is what to run.
type Spec struct {
	// JobID, Attempt, Rank and Token name the task; the shim only keeps them.
	JobID   string `json:"job_id"`
	Attempt int32  `json:"attempt"`
	Rank    int32  `json:"rank"`
	Token   uint64 `json:"token"`
	// Node is named in messages.
	Node string `json:"node"`

	Argv []string `json:"argv,omitempty"`
	// Env is the whole environment.
	Env []string `json:"env,omitempty"`
	// Cwd must exist; empty: the first of Dirs.
	Cwd string `json:"cwd,omitempty"`
	// Dirs are made before the command starts.
	Dirs []string `json:"dirs,omitempty"`
	// CheckpointDir is listed into BaselineFile before the command starts.
	CheckpointDir string `json:"checkpoint_dir,omitempty"`
	// Refusal, when set, is why the task cannot be launched at all.
	Refusal string `json:"refusal,omitempty"`

	SegmentBytes int64 `json:"segment_bytes,omitempty"`
	LogBytes     int64 `json:"log_bytes,omitempty"`
	// Cgroup is made and used when set.
	Cgroup string `json:"cgroup,omitempty"`

	// Notes are the agent's own.
	Notes json.RawMessage `json:"notes,omitempty"`
}

// Exit says how a task ended.
type Exit struct {
	// Pid of the command; 0: it never ran.
	Pid int `json:"pid,omitempty"`
	// Started and Ended are unix nanoseconds.
	Started int64 `json:"started,omitempty"`
	Ended   int64 `json:"ended"`
	// Code is the exit code, 128 + Signal when it died of one, and -1 when it
	// never ran or nobody knows.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Stopped is set when the shim had been told to stop the task.
	Stopped bool `json:"stopped,omitempty"`
	// Killed counts the processes that the command left behind.
	Killed    int   `json:"killed,omitempty"`
	MaxRSSKB  int64 `json:"max_rss_kb,omitempty"`
	UserMicro int64 `json:"user_us,omitempty"`
	SysMicro  int64 `json:"sys_us,omitempty"`
	// Failure and Message say what went wrong, when the shim knows.
	Failure string `json:"failure,omitempty"`
	Message string `json:"message,omitempty"`
}

// ReadSpec reads the specification in a task directory.
func ReadSpec(dir string) (Spec, error) {
	var spec Spec
	return spec, readJSON(dir+"/"+SpecFile, &spec)
}

// ReadExit reads how the task in a directory ended; the error wraps
// os.ErrNotExist while it has not.
func ReadExit(dir string) (Exit, error) {
	var exit Exit
	return exit, readJSON(dir+"/"+ExitFile, &exit)
}

func readJSON(name string, into any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// WriteExit writes how a task ended so that it survives a power cut.
func WriteExit(dir string, exit Exit) error {
	data, err := json.Marshal(exit)
	if err != nil {
		return err
	}
	return writeDurably(dir, ExitFile, data)
}

func writeDurably(dir, name string, data []byte) error {
	tmp := dir + "/" + name + ".tmp"
	file, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, dir+"/"+name)
	}
	if err != nil {
		return err
	}
	parent, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}
