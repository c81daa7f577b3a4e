package procs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Component is one process of the cluster, as in dev.json.
type Component struct {
	ID       string   `json:"id"`
	NodeID   string   `json:"node_id"`
	PID      int      `json:"pid"`
	Argv     []string `json:"argv"`
	URL      string   `json:"url"`
	GRPCAddr string   `json:"grpc_addr"`
	HTTPAddr string   `json:"http_addr"`
	RaftAddr string   `json:"raft_addr"`
}

// Name returns the id of a coordinator, or of an agent's node.
func (p Component) Name() string {
	switch {
	case p.ID != "":
		return p.ID
	case p.NodeID != "":
		return p.NodeID
	}
	return "gateway"
}

// Operator has the credentials for gRPC calls to the coordinators.
type Operator struct {
	Cert   string `json:"cert_file"`
	Key    string `json:"key_file"`
	Secret string `json:"api_secret"`
}

// Info is the content of dev.json.
type Info struct {
	Gateway      Component   `json:"gateway"`
	Token        string      `json:"token"`
	CACert       string      `json:"ca_cert"`
	Coordinators []Component `json:"coordinators"`
	Agents       []Component `json:"agents"`
	Operator     Operator    `json:"operator"`
	// PID is the supervisor's process id.
	PID int `json:"pid"`
}

func (i Info) all() []*Component {
	all := []*Component{&i.Gateway}
	for n := range i.Coordinators {
		all = append(all, &i.Coordinators[n])
	}
	for n := range i.Agents {
		all = append(all, &i.Agents[n])
	}
	return all
}

// Info reads dev.json. The pid of a component that was restarted by another process than the supervisor is not in the
// file: it is found by its command line.
func (c *Cluster) Info() (Info, error) {
	var info Info
	text, err := os.ReadFile(filepath.Join(c.Dir, "dev.json"))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, err
	}
	byArgv := map[string]int(nil)
	all := info.all()
	for _, p := range all {
		if len(p.Argv) == 0 || runs(p.PID, p.Argv) {
			continue
		}
		if byArgv == nil {
			byArgv = running()
		}
		if pid, ok := byArgv[strings.Join(p.Argv, "\x00")]; ok {
			p.PID = pid
		}
	}
	info.Gateway = *all[0]
	return info, nil
}

func runs(pid int, argv []string) bool {
	return pid > 0 && commandLine(strconv.Itoa(pid)) == strings.Join(argv, "\x00")
}

// exiting reports whether a process is exiting: it has no command line any more, but may still hold its ports and
// files. They are free when its last thread is a zombie or gone.
func exiting(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if commandLine(strconv.Itoa(pid)) != "" {
		return false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	zombie := len(fields) > 0 && (fields[0] == "Z" || fields[0] == "X")
	return err == nil && !(zombie && len(threads) <= 1)
}

// commandLine returns the command line of a process. It is empty for a process that has ended or is exiting, also for a
// zombie.
func commandLine(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSuffix(text, []byte{0}))
}

// running returns the pids of all processes by their command lines.
func running() map[string]int {
	found := map[string]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if argv := commandLine(filepath.Base(dir)); argv != "" {
			found[argv], _ = strconv.Atoi(filepath.Base(dir))
		}
	}
	return found
}

// Processes returns the pids of processes whose command line contains text.
func Processes(text string) []int {
	var pids []int
	for argv, pid := range running() {
		if strings.Contains(argv, text) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isMind(pid int) bool { return strings.Contains(commandLine(strconv.Itoa(pid)), "mind") }
