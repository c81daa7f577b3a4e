// Package contain attacks a node as a job of one tenant: its agent, its system, and the job of another tenant on it. It makes the
// table of attacks in docs/operate/isolation.md, and times the node while jobs take whatever they get.
package contain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// Column is a configuration of the agent.
type Column struct {
	Name  string
	Level string
	// Users: each tenant has a user of its own.
	Users bool
}

// Columns are the configurations that are attacked.
var Columns = []Column{
	{"`none`", "none", false}, {"`cgroup`", "cgroup", false}, {"`cgroup`, `users`", "cgroup", true}, {"`full`", "full", false}, {"`full`, `users`", "full", true},
}

// Users of the tenants of an attack. They have no entry in the system.
var users = map[string]string{"attacker": "61001:61001", "victim": "61002:61002"}

// Outcome is the result of each attack, by its name: true if it was possible.
type Outcome map[string]bool

// Names returns the names of the attacks, in the order of the table.
func Names() []string {
	var names []string
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

// field is one attack on one node.
type field struct {
	dir      string
	cluster  *procs.Cluster
	info     procs.Info
	attacker *procs.REST
	victim   *procs.REST
	env      map[string]string
}

// Run attacks a new node, whose directories are in a directory that it makes and removes: one outside of the directories of jobs.
func Run(ctx context.Context, mind, dir string, column Column) (_ Outcome, err error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the directory of the cluster: %w", err)
	}
	f := &field{dir: dir, env: map[string]string{}}
	if f.cluster, err = procs.Start(ctx, mind, dir, "--coordinators", "1", "--agents", "1", "--gpus", "4xH100", "--http", "127.0.0.1:0", "--restart", "--isolation", column.Level); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.cluster.Stop(), os.RemoveAll(dir)) }()
	if err := f.prepare(ctx, column); err != nil {
		return nil, err
	}
	end, err := f.serve()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	removed, err := f.makeDevice()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removed()) }()
	deleted, err := f.makeProgram()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, deleted()) }()
	id, err := f.startVictim(ctx)
	if err != nil {
		return nil, err
	}
	out := Outcome{}
	for i, a := range attacks {
		if out[a.name], err = f.play(ctx, a, i); err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
	}
	// It must have outlived all of them.
	if j, err := f.victim.Job(ctx, id); err != nil || j.Ended() || j.Attempt != 1 {
		return nil, fmt.Errorf("the attacked job is %s in attempt %d: %w", j.State, j.Attempt, err)
	}
	if err := f.victim.Do(ctx, http.MethodPost, "/jobs/"+id+"/cancel", nil, nil, nil); err != nil {
		return nil, fmt.Errorf("end the attacked job: %w", err)
	}
	_, err = f.victim.WaitEnded(ctx, id)
	return out, err
}

// prepare gives the tenants users and tokens.
func (f *field) prepare(ctx context.Context, column Column) (err error) {
	if f.info, err = f.cluster.Info(); err != nil {
		return err
	}
	agent := f.info.Agents[0]
	path := filepath.Join(f.cluster.Dir, "config", agent.NodeID+".yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration of the agent: %w", err)
	}
	// mind dev is for one user's machine: this is the configuration of a node of a cluster.
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read the configuration of the agent: %w", err)
	}
	config["data_roots"] = []string{programs}
	delete(config, "task_paths")
	delete(config, "private_dirs")
	delete(config, "mounts")
	if column.Users {
		config["users"] = users
		for _, dir := range []string{f.cluster.Dir, filepath.Join(f.cluster.Dir, "agents")} {
			if err := os.Chmod(dir, 0o711); err != nil {
				return fmt.Errorf("let users pass to the directory of the agent: %w", err)
			}
		}
	}
	f.env["CONFIG"], f.env["KEY"], f.env["DATA"] = path, fmt.Sprint(config["key_file"]), fmt.Sprint(config["data_dir"])
	if text, err = yaml.Marshal(config); err != nil {
		return fmt.Errorf("write the configuration of the agent: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write the configuration of the agent: %w", err)
	}
	if err := f.cluster.Signal(agent, syscall.SIGTERM); err != nil {
		return err
	}
	if err := f.cluster.WaitBack(ctx, agent); err != nil {
		return err
	}
	if f.info, err = f.cluster.Info(); err != nil {
		return err
	}
	tenant := func(name string) *procs.REST {
		var out struct {
			Token string `json:"token"`
		}
		ask := map[string]any{"tenant_id": name, "user_id": name, "name": "contain", "permissions": []string{"scaimind:view", "scaimind:manage"}}
		err = errors.Join(err, procs.NewREST(f.info).Do(ctx, http.MethodPost, "/tokens", nil, ask, &out))
		info := f.info
		info.Token = out.Token
		return procs.NewREST(info)
	}
	f.attacker, f.victim = tenant("attacker"), tenant("victim")
	return err
}

var socket = regexp.MustCompile(`(?m)^socket "@([^"]+)"$`)

// startVictim starts the job that is attacked, and learns where its things are.
func (f *field) startVictim(ctx context.Context) (string, error) {
	job := procs.Command("victim", 1, "sh", "-c", victim)
	job["command_config"].(map[string]any)["environment"] = map[string]string{"SECRET": "SECRET_OF_ENVIRONMENT"}
	id, err := f.victim.Submit(ctx, "", job)
	if err != nil {
		return "", err
	}
	said := map[string]string{}
	for said["ready"] == "" {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("waiting for the attacked job: %w", err)
		}
		err := f.victim.Logs(ctx, id, "follow=false", func(line procs.LogLine) {
			name, value, _ := strings.Cut(line.Message, "=")
			said[name] = value + "."
		})
		if err != nil {
			return "", err
		}
		time.Sleep(50 * time.Millisecond)
	}
	for name, value := range said {
		if strings.HasPrefix(name, "V_") {
			f.env[name] = strings.TrimSuffix(value, ".")
		}
	}
	// The number that it has in its namespace means nothing elsewhere.
	pid, err := pidOf("sh", "-c", victim)
	if err != nil {
		return "", err
	}
	f.env["V_PID"] = strconv.Itoa(pid)
	record, err := os.ReadFile(filepath.Join(f.env["V_TASK"], "task"))
	if err != nil {
		return "", fmt.Errorf("read the record of the attacked task: %w", err)
	}
	found := socket.FindSubmatch(record)
	gateway, parseErr := url.Parse(f.info.Gateway.URL)
	if found == nil || parseErr != nil {
		return "", fmt.Errorf("the record of the attacked task has no socket: %w", parseErr)
	}
	f.env["V_SOCKET"], f.env["PORT"] = string(found[1]), gateway.Port()
	f.env["AGENT"] = strconv.Itoa(f.info.Agents[0].PID)
	return id, nil
}

// play runs one attack as a job, and reports whether it was possible.
func (f *field) play(ctx context.Context, a attack, number int) (possible bool, err error) {
	mark := fmt.Sprintf("mind-contain-%d-%d", os.Getpid(), number)
	job := procs.Command("attack", 1, "sh", "-c", a.script+"\ntrue")
	env := map[string]string{"MARK": mark}
	for name, value := range f.env {
		env[name] = value
	}
	job["command_config"].(map[string]any)["environment"] = env
	if a.model != "" {
		env["SCRIPT"] = a.script
		delete(job, "command_config")
		job["training_config"] = map[string]any{
			"training_type": "LORA", "environment": env,
			"base_model": map[string]any{"model_id": os.Expand(a.model, func(name string) string { return f.env[name] }), "source": "program"},
			"framework":  map[string]any{"type": "CUSTOM", "custom_script_path": f.env["PROGRAM"]},
		}
		job["data_config"] = map[string]any{"sources": []map[string]any{{"path": f.env["PROGRAM"]}}}
	}
	job["scheduling_config"] = map[string]any{"max_retries": 0}
	if a.retried {
		job["scheduling_config"] = map[string]any{"max_retries": 1}
		job["output_config"] = map[string]any{"output_dir": f.env["WORK"]}
	}
	before := sleepers()
	id, err := f.attacker.Submit(ctx, "", job)
	if err != nil {
		return false, err
	}
	ended, err := f.attacker.WaitEnded(ctx, id)
	if err != nil {
		return false, err
	}
	if ended.State != "SUCCEEDED" && !a.fails && !a.retried {
		return false, fmt.Errorf("its job is %s: %s", ended.State, ended.ErrorMessage)
	}
	if a.outlives {
		for pid := range sleepers() {
			if !before[pid] {
				possible = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return possible, nil
	}
	err = f.attacker.Logs(ctx, id, "follow=false", func(line procs.LogLine) {
		possible = possible || line.Message == "POSSIBLE"
	})
	return possible, err
}

// pidOf finds the process of a command line.
func pidOf(argv ...string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("look for a process: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && string(line) == strings.Join(argv, "\x00")+"\x00" {
			return pid, nil
		}
	}
	return 0, errors.New("the attacked job has no process")
}

// serve makes a service with a socket in /run that anybody may use, until the returned function is called.
func (f *field) serve() (end func() error, err error) {
	f.env["SERVICE"] = fmt.Sprintf("/run/mind-contain-%d.sock", os.Getpid())
	listener, err := net.Listen("unix", f.env["SERVICE"])
	if err != nil {
		return nil, fmt.Errorf("make a service: %w", err)
	}
	// The kernel accepts connections as long as there is room for them, and that is all that an attack needs.
	return listener.Close, os.Chmod(f.env["SERVICE"], 0o666)
}

// makeDevice makes a device that anybody may read, where jobs may read, until the returned function is called: one of the log of the
// kernel.
func (f *field) makeDevice() (end func() error, err error) {
	f.env["DEVICE"] = fmt.Sprintf("/opt/mind-contain-%d", os.Getpid())
	const major, minor = 1, 11
	if err := unix.Mknod(f.env["DEVICE"], unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
		return nil, fmt.Errorf("make a device: %w", err)
	}
	return func() error { return os.Remove(f.env["DEVICE"]) }, os.Chmod(f.env["DEVICE"], 0o666)
}

// programs is where jobs may read, and have their program and their data.
const programs = "/opt"

// makeProgram makes a program that runs $SCRIPT, for trainings, until the returned function is called.
func (f *field) makeProgram() (end func() error, err error) {
	f.env["PROGRAM"] = fmt.Sprintf(programs+"/mind-contain-%d.sh", os.Getpid())
	if err := os.WriteFile(f.env["PROGRAM"], []byte("#!/bin/sh\neval \"$SCRIPT\"\ntrue\n"), 0o755); err != nil {
		return nil, fmt.Errorf("make a program: %w", err)
	}
	f.env["WORK"] = fmt.Sprintf("/srv/mind-contain-%d", os.Getpid())
	err = errors.Join(os.Mkdir(f.env["WORK"], 0o777), os.Chmod(f.env["WORK"], 0o777))
	return func() error { return errors.Join(os.Remove(f.env["PROGRAM"]), os.RemoveAll(f.env["WORK"])) }, err
}

// sleepers finds the processes that attacks leave.
func sleepers() map[int]bool {
	found := map[int]bool{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && string(line) == "sleep\x00456\x00" {
			found[pid] = true
		}
	}
	return found
}

// Table returns the outcomes as a table of Markdown, with a column for each.
func Table(columns []Column, outcomes []Outcome) string {
	var b strings.Builder
	b.WriteString("| a job tries to |")
	for _, c := range columns {
		b.WriteString(" " + c.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, name := range Names() {
		b.WriteString("| " + name + " |")
		for _, o := range outcomes {
			b.WriteString(map[bool]string{true: " **possible** |", false: " denied |"}[o[name]])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Sweep removes directories of runs that died.
func Sweep(pattern string) error {
	left, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("look for directories of earlier runs: %w", err)
	}
	for _, dir := range left {
		_, after, _ := strings.Cut(filepath.Base(dir), "contain-")
		pid, err := strconv.Atoi(after)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			err = os.RemoveAll(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	return nil
}
