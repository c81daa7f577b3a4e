package shim

import (
	"errors"
	"strconv"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/taskfile"
)

// Names of the files in a task directory.
const (
	// SpecFile is written by the agent before it starts the shim. The shim adds
	// a line to it just before it starts the command.
	SpecFile = "task"
	// BaselineFile lists the contents of the checkpoint directory before the command was started.
	BaselineFile = "baseline.json"
	// ExitFile is the last file that the shim writes: an Exit as JSON.
	ExitFile = "exit.json"
	// MetricsFile and EventsFile are appended to by the command.
	MetricsFile = "metrics.jsonl"
	EventsFile  = "events.jsonl"
	// LogDir holds the log of the task: the directory itself.
	LogDir = "."
)

// Failures that a shim can recognize; the names are those of ErrorType in the api.
const (
	FailureNone       = ""
	FailureCwdMissing = "CWD_MISSING"
	FailureLaunch     = "LAUNCH_FAILED"
	FailureOOM        = "OOM"
	FailureInternal   = "INTERNAL"
	FailureNodeLost   = "NODE_LOST"
	// FailureUnfit: the node could not start the task, for a reason of its own.
	FailureUnfit = "NODE_UNFIT"
)

// Spec specifies what to run.
type Spec struct {
	// JobID, Attempt, Rank and Token identify the task; the shim only stores them.
	JobID   string
	Attempt int32
	Rank    int32
	Token   uint64
	// Node is used in messages.
	Node string

	Argv []string
	// Env is the whole environment.
	Env []string
	// Cwd must exist; empty: the first of Dirs.
	Cwd string
	// Dirs are made before the command starts.
	Dirs []string
	// CheckpointDir is listed in BaselineFile before the command starts.
	CheckpointDir string
	// Probe, if set, is a program that runs before the command and finds out what the node lacks: exit code probe.Found+i stands
	// for Lacks[i], which is then why the task was not launched.
	Probe, Lacks []string
	// Refusal, if set, is why the task cannot be launched.
	Refusal string

	SegmentBytes int64
	LogBytes     int64
	// Cgroup, if set, is created and used.
	Cgroup string
	// Limits are settings of the control group, each a file and its value, such as "memory.max 1073741824".
	Limits []string
	// Walls are around the processes of the task.
	Walls confine.Walls
	// Room, if it has mounts, are the namespaces of the task.
	Room confine.Room
	// Sources are files and directories that the job asked for: they become mounts only if its user may read them.
	Sources []string
	// User is the user of the task. Own is the folder of the agent in which it makes directories for the user, and Given are files
	// and directories in that of the task that become the user's.
	User  confine.User
	Own   string
	Given []string
	// Socket is the name of the shim's socket.
	Socket string
	// Lease is the lease of the task; the zero value: only a stop ends it.
	Lease Lease

	// Begun is set if the command may have been started, Acked if the coordinators know the end of the task. Encode does
	// not write them: each is a line that is added later.
	Begun, Acked bool
}

// Exit describes how a task ended.
type Exit struct {
	// Pid is the process id of the command; 0: it never ran.
	Pid int `json:"pid"`
	// Started and Ended are unix nanoseconds.
	Started int64 `json:"started"`
	Ended   int64 `json:"ended"`
	// Code is the exit code, 128 + Signal if a signal ended it, and -1 if it never ran or the code is unknown.
	Code   int `json:"code"`
	Signal int `json:"signal"`
	// Stopped is set if the shim was told to stop the task.
	Stopped bool `json:"stopped"`
	// Killed counts the processes that the command left behind.
	Killed    int   `json:"killed"`
	MaxRSSKB  int64 `json:"max_rss_kb"`
	UserMicro int64 `json:"user_us"`
	SysMicro  int64 `json:"sys_us"`
	// Failure is one of the failures above, and Message explains it; empty: the shim does not know the reason.
	Failure string `json:"failure"`
	Message string `json:"message"`
}

// RecordVersion is the version of the specifications that this program writes. It reads this one and all earlier ones;
// files of version 1 contain no version. A change that a program with an earlier version would misread needs a new
// version.
const RecordVersion = 6

// simpleVersion is the version of a specification that has no limits, walls and user: earlier programs read it, too.
const simpleVersion = 2

// walledVersion is the version of a specification that has no room, roomVersion that of one without sources, and askedVersion
// that of one without a probe.
const (
	walledVersion = 3
	roomVersion   = 4
	askedVersion  = 5
)

// VersionError is returned for a specification that a newer program wrote.
type VersionError struct{ Version int64 }

func (e VersionError) Error() string {
	return "the record of the task has version " + strconv.FormatInt(e.Version, 10) + ", and this program reads up to " + strconv.Itoa(RecordVersion) +
		": a newer agent launched it; run that agent until the task has ended"
}

// FilesMade reports whether the shim makes the metrics and events files: the task cannot make files in its directory.
func (s *Spec) FilesMade() bool {
	return !s.User.None() || !s.Room.None() || len(s.Walls.Write) > 0
}

// errSpec is returned for a file that is not a specification.
var errSpec = errors.New("not a task specification")

// strings lists the fields by their names in the file.
func (s *Spec) strings() map[string]*string {
	return map[string]*string{
		"job": &s.JobID, "node": &s.Node, "cwd": &s.Cwd, "checkpoints": &s.CheckpointDir, "refusal": &s.Refusal, "cgroup": &s.Cgroup, "socket": &s.Socket,
		"own": &s.Own,
	}
}

// Encode returns the specification as lines of a name and a quoted value.
// Package encoding/json would need package reflect (see the package comment),
// and JSON cannot carry arguments that are not UTF-8.
func (s Spec) Encode() []byte {
	data := make([]byte, 0, 4096)
	add := func(name, value string) {
		data = append(data, name...)
		data = append(data, ' ')
		data = strconv.AppendQuote(data, value)
		data = append(data, '\n')
	}
	version := simpleVersion
	if len(s.Limits) > 0 || !s.Walls.None() || !s.User.None() {
		version = walledVersion
	}
	if !s.Room.None() {
		version = roomVersion
	}
	if len(s.Sources) > 0 {
		version = askedVersion
	}
	if len(s.Probe) > 0 {
		version = RecordVersion
	}
	add("version", strconv.Itoa(version))
	add("attempt", strconv.FormatInt(int64(s.Attempt), 10))
	add("rank", strconv.FormatInt(int64(s.Rank), 10))
	add("token", strconv.FormatUint(s.Token, 10))
	add("segment-bytes", strconv.FormatInt(s.SegmentBytes, 10))
	add("log-bytes", strconv.FormatInt(s.LogBytes, 10))
	if s.Lease != (Lease{}) {
		add("lease", s.Lease.text())
	}
	for name, value := range s.strings() {
		if *value != "" {
			add(name, *value)
		}
	}
	for _, arg := range s.Argv {
		add("arg", arg)
	}
	for _, env := range s.Env {
		add("env", env)
	}
	for _, dir := range s.Dirs {
		add("dir", dir)
	}
	for _, limit := range s.Limits {
		add("limit", limit)
	}
	if !s.User.None() {
		add("user", s.User.Text())
	}
	for _, name := range s.Given {
		add("given", name)
	}
	if s.Walls.Scope {
		add("scope", s.Walls.ScopeText())
	}
	for i := range s.Room.Mounts {
		add("mount", s.Room.Mounts[i].Text())
	}
	for _, path := range s.Sources {
		add("source", path)
	}
	for _, arg := range s.Probe {
		add("probe", arg)
	}
	for _, text := range s.Lacks {
		add("lacks", text)
	}
	for _, path := range s.Walls.Read {
		add("read", path)
	}
	for _, path := range s.Walls.Write {
		add("write", path)
	}
	// A file without its end is incomplete.
	add("end", "")
	return data
}

// Lines that are added to a specification later.
const (
	begunLine = "begun \"\"\n"
	ackedLine = "acked \"\"\n"
)

// Decode parses a result of Encode, and the lines that were added to it.
func (s *Spec) Decode(data []byte) error {
	names := s.strings()
	whole := false
	for len(data) > 0 {
		if whole {
			s.Begun = s.Begun || hasPrefix(data, begunLine)
			s.Acked = s.Acked || hasPrefix(data, ackedLine)
			if !hasPrefix(data, begunLine) && !hasPrefix(data, ackedLine) {
				s.Begun = true // unknown: assume that it was, because then nothing is started
				return errSpec
			}
			data = data[len(begunLine):]
			continue
		}
		end := 0
		for end < len(data) && data[end] != '\n' {
			end++
		}
		if end == len(data) {
			return errSpec
		}
		line := string(data[:end])
		data = data[end+1:]
		space := 0
		for space < len(line) && line[space] != ' ' {
			space++
		}
		if space == len(line) {
			return errSpec
		}
		value, err := strconv.Unquote(line[space+1:])
		if err != nil {
			return errSpec
		}
		switch name := line[:space]; name {
		case "version":
			// The version comes first: nothing else of a newer file is read.
			var version int64
			if version, err = strconv.ParseInt(value, 10, 64); err == nil && version > RecordVersion {
				s.Begun = true // unknown: assume that it was, because then nothing is started
				return VersionError{version}
			}
		case "attempt":
			err = parseInt32(value, &s.Attempt)
		case "rank":
			err = parseInt32(value, &s.Rank)
		case "token":
			s.Token, err = strconv.ParseUint(value, 10, 64)
		case "segment-bytes":
			s.SegmentBytes, err = strconv.ParseInt(value, 10, 64)
		case "log-bytes":
			s.LogBytes, err = strconv.ParseInt(value, 10, 64)
		case "lease":
			if !s.Lease.parse(value) {
				return errSpec
			}
		case "arg":
			s.Argv = append(s.Argv, value)
		case "env":
			s.Env = append(s.Env, value)
		case "dir":
			s.Dirs = append(s.Dirs, value)
		case "limit":
			s.Limits = append(s.Limits, value)
		case "user":
			if !s.User.Parse(value) {
				return errSpec
			}
		case "given":
			s.Given = append(s.Given, value)
		case "scope":
			s.Walls.ParseScope(value)
		case "mount":
			var m confine.Mount
			if !m.Parse(value) {
				return errSpec
			}
			s.Room.Mounts = append(s.Room.Mounts, m)
		case "source":
			s.Sources = append(s.Sources, value)
		case "probe":
			s.Probe = append(s.Probe, value)
		case "lacks":
			s.Lacks = append(s.Lacks, value)
		case "read":
			s.Walls.Read = append(s.Walls.Read, value)
		case "write":
			s.Walls.Write = append(s.Walls.Write, value)
		case "end":
			whole = true
		default:
			field, ok := names[name]
			if !ok {
				// A newer agent has written the field, and relies on it.
				return errSpec
			}
			*field = value
		}
		if err != nil {
			return errSpec
		}
	}
	if !whole {
		return errSpec
	}
	return nil
}

func parseInt32(text string, into *int32) error {
	n, err := strconv.ParseInt(text, 10, 32)
	*into = int32(n)
	return err
}

// maxSpec limits a specification: the kernel accepts 6 MiB of arguments and environment at most, and each byte may be
// quoted as four.
const maxSpec = 32 << 20

// ReadSpec reads the specification in a task directory.
func ReadSpec(dir string) (Spec, error) {
	var spec Spec
	data, err := taskfile.Read(dir, SpecFile, maxSpec)
	if err != nil {
		return spec, err
	}
	return spec, spec.Decode(data)
}

// JSON returns the exit as one line of JSON.
func (e Exit) JSON() []byte {
	data := make([]byte, 0, 512)
	number := func(name string, value int64) {
		data = append(append(append(data, '"'), name...), `":`...)
		data = append(strconv.AppendInt(data, value, 10), ',')
	}
	data = append(data, '{')
	number("pid", int64(e.Pid))
	number("started", e.Started)
	number("ended", e.Ended)
	number("code", int64(e.Code))
	number("signal", int64(e.Signal))
	number("killed", int64(e.Killed))
	number("max_rss_kb", e.MaxRSSKB)
	number("user_us", e.UserMicro)
	number("sys_us", e.SysMicro)
	data = append(data, `"stopped":`...)
	data = strconv.AppendBool(data, e.Stopped)
	data = append(data, `,"failure":`...)
	data = appendJSONString(data, e.Failure)
	data = append(data, `,"message":`...)
	data = appendJSONString(data, e.Message)
	return append(data, '}')
}

func appendJSONString(data []byte, s string) []byte {
	const hex = "0123456789abcdef"
	data = append(data, '"')
	// Ranging by rune turns invalid UTF-8 into U+FFFD.
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			data = append(data, '\\', byte(r))
		case r < ' ':
			data = append(data, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			data = append(data, string(r)...)
		}
	}
	return append(data, '"')
}

func hasPrefix(data []byte, prefix string) bool {
	return len(data) >= len(prefix) && string(data[:len(prefix)]) == prefix
}

// markBegun records that the command may be running from here on.
func markBegun(dir string) error { return taskfile.Append(dir, SpecFile, []byte(begunLine)) }

// MarkAcked records that the coordinators know the end of the task.
func MarkAcked(dir string) error { return taskfile.Append(dir, SpecFile, []byte(ackedLine)) }

// WriteExit writes how a task ended.
func WriteExit(dir string, exit Exit) error { return taskfile.Replace(dir, ExitFile, exit.JSON()) }
