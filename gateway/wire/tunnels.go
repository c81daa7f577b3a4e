package wire

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// tunnelName matches the names of tunnels: random enough that two do not meet.
var tunnelName = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)

// Limits of a command that is started in a job.
const (
	maxCommandWords = 1000
	maxCommandBytes = 32 << 10
)

// JobShell reads which process is wanted beside a task.
func JobShell(query url.Values) (*v1.TunnelOpening, []Fault) {
	o, faults := opening(query)
	shell := &v1.TunnelShell{Command: query["command"], Term: query.Get("term")}
	if len(shell.Command) == 0 {
		shell.Command = []string{"sh"}
	}
	bytes := 0
	for _, word := range shell.Command {
		bytes += len(word)
	}
	switch {
	case shell.Command[0] == "":
		faults = append(faults, Fault{"command", "begins with the name of a program"})
	case len(shell.Command) > maxCommandWords || bytes > maxCommandBytes:
		faults = append(faults, Fault{"command", fmt.Sprintf("has at most %d words and %d bytes", maxCommandWords, maxCommandBytes)})
	case len(shell.Term) > 64:
		faults = append(faults, Fault{"term", "has at most 64 bytes"})
	}
	var terminal *bool
	if terminal, faults = Bool(query, "terminal", faults); terminal != nil {
		shell.Terminal = *terminal
	}
	var rows, columns int32
	rows, faults = Int(query, "rows", 0, math.MaxInt16, faults)
	columns, faults = Int(query, "columns", 0, math.MaxInt16, faults)
	shell.Size = &v1.TunnelSize{Rows: uint32(rows), Columns: uint32(columns)}
	o.Shell = shell
	return o, faults
}

// JobPort reads which port of a task is wanted.
func JobPort(query url.Values) (*v1.TunnelOpening, []Fault) {
	o, faults := opening(query)
	if query.Get("port") == "" {
		return o, append(faults, Fault{"port", "is missing"})
	}
	o.Port, faults = Int(query, "port", 1, math.MaxUint16, faults)
	return o, faults
}

// opening reads what all tunnels have.
func opening(query url.Values) (*v1.TunnelOpening, []Fault) {
	o := &v1.TunnelOpening{TunnelId: query.Get("tunnel")}
	var faults []Fault
	if !tunnelName.MatchString(o.TunnelId) {
		faults = append(faults, Fault{"tunnel", "must be a random name of the client's choice, 16 to 128 letters and digits"})
	}
	o.Rank, faults = Int(query, "rank", 0, math.MaxInt32, faults)
	o.Attempt, faults = Int(query, "attempt", 0, math.MaxInt32, faults)
	resume, faults := Bool(query, "resume", faults)
	o.Resume = resume != nil && *resume
	for name, to := range map[string]*uint64{"stdout_received": &o.StdoutReceived, "stderr_received": &o.StderrReceived} {
		raw := query.Get(name)
		if raw == "" {
			continue
		}
		n, err := strconv.ParseUint(raw, 10, 63)
		if err != nil {
			faults = append(faults, Fault{name, fmt.Sprintf("must be a number of bytes, not %q", Printable(raw))})
		}
		*to = n
	}
	return o, faults
}
