package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// agent answers the requests of the host.
type agent struct {
	ready time.Duration

	mu      sync.Mutex
	started map[int]*process
}

// process is a process in the background.
type process struct {
	done   chan struct{}
	result Result
}

func serve() error {
	a := &agent{started: map[int]*process{}}
	l, err := net.Listen("tcp", net.JoinHostPort(Address, strconv.Itoa(Port)))
	if err != nil {
		return err
	}
	a.ready = up()
	fmt.Printf("%s after %d ms\n", ReadyWord, a.ready.Milliseconds())
	return (&http.Server{Handler: a.handler(), ReadHeaderTimeout: time.Minute}).Serve(l)
}

func (a *agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", a.status)
	mux.HandleFunc("POST /run", a.run)
	mux.HandleFunc("POST /start", a.start)
	mux.HandleFunc("GET /wait/{pid}", a.wait)
	mux.HandleFunc("POST /await", a.await)
	mux.HandleFunc("GET /file", a.readFile)
	mux.HandleFunc("PUT /file", a.writeFile)
	mux.HandleFunc("POST /power-off", a.powerOff)
	return mux
}

// up returns how long the kernel has been running.
func up() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the host has disconnected
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Fault{Error: err.Error()})
}

func (a *agent) status(w http.ResponseWriter, _ *http.Request) {
	s := Status{Up: up(), Ready: a.ready}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	s.Kernel = unix.ByteSliceToString(name.Release[:])
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	s.BootID = strings.TrimSpace(string(id))
	answer(w, s)
}

// outlive is how long the output of a command is read after its end, because its children may keep it open.
const outlive = time.Second

func order(r *http.Request) (Command, error) {
	var c Command
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		return c, fmt.Errorf("reading the command: %w", err)
	}
	if len(c.Argv) == 0 {
		return c, errors.New("argv is empty")
	}
	return c, nil
}

func (c Command) prepare(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env = append(os.Environ(), c.Env...)
	if cmd.Dir = c.Dir; cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = outlive
	return cmd
}

// code returns the exit code of an ended process, or an error of another kind.
func code(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return 0, nil
	case !errors.As(err, &exit):
		return 0, err
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), nil
	}
	return exit.ExitCode(), nil
}

func (a *agent) run(w http.ResponseWriter, r *http.Request) {
	c, err := order(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	cmd := c.prepare(r.Context())
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), &stdout, &stderr
	n, err := code(cmd.Run())
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("running %s: %w", c.Argv[0], err))
		return
	}
	answer(w, Result{Code: n, Stdout: stdout.Bytes(), Stderr: stderr.Bytes()})
}

func (a *agent) start(w http.ResponseWriter, r *http.Request) {
	c, err := order(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	cmd := c.prepare(context.WithoutCancel(r.Context()))
	if c.Log != "" {
		log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
	}
	if err := cmd.Start(); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("starting %s: %w", c.Argv[0], err))
		return
	}
	p := &process{done: make(chan struct{})}
	a.mu.Lock()
	a.started[cmd.Process.Pid] = p
	a.mu.Unlock()
	go func() {
		defer close(p.done)
		n, err := code(cmd.Wait())
		if err != nil {
			n = -1
		}
		p.result = Result{Code: n}
	}()
	answer(w, Started{PID: cmd.Process.Pid})
}

// wait answers when a background process has ended.
func (a *agent) wait(w http.ResponseWriter, r *http.Request) {
	pid, _ := strconv.Atoi(r.PathValue("pid"))
	a.mu.Lock()
	p := a.started[pid]
	a.mu.Unlock()
	if p == nil {
		refuse(w, http.StatusNotFound, fmt.Errorf("process %s was not started here", r.PathValue("pid")))
		return
	}
	select {
	case <-p.done:
		answer(w, p.result)
	case <-r.Context().Done():
	}
}

// awaitPause is the time between two checks for a file.
const awaitPause = time.Millisecond

// await answers when a file exists whose name matches the pattern.
func (a *agent) await(w http.ResponseWriter, r *http.Request) {
	var what Await
	if err := json.NewDecoder(r.Body).Decode(&what); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	for {
		found, err := filepath.Glob(what.Pattern)
		switch {
		case err != nil:
			refuse(w, http.StatusBadRequest, err)
			return
		case len(found) > 0:
			answer(w, struct{}{})
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(awaitPause):
		}
	}
}

func (a *agent) readFile(w http.ResponseWriter, r *http.Request) {
	text, err := os.ReadFile(r.FormValue("path"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, http.StatusNotFound, err)
	case err != nil:
		refuse(w, http.StatusInternalServerError, err)
	default:
		_, _ = w.Write(text)
	}
}

// writeFile replaces a file in one step: readers see the old or the new one.
func (a *agent) writeFile(w http.ResponseWriter, r *http.Request) {
	path := r.FormValue("path")
	mode, err := strconv.ParseUint(r.FormValue("mode"), 8, 32)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if err := replace(path, os.FileMode(mode), r); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, struct{}{})
}

func replace(path string, mode os.FileMode, r *http.Request) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	aside := path + ".part"
	f, err := os.OpenFile(aside, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.ReadFrom(r.Body)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(aside, path)
}

// endingWithin is the time between SIGTERM and SIGKILL when the machine is switched off.
const endingWithin = 10 * time.Second

// powerOff ends all processes, syncs and unmounts all file systems, and switches the machine off.
func (a *agent) powerOff(w http.ResponseWriter, _ *http.Request) {
	answer(w, struct{}{})
	_ = http.NewResponseController(w).Flush()
	go func() {
		_ = unix.Kill(-1, unix.SIGTERM) // all processes except process 1 and this one
		for begun := time.Now(); others() && time.Since(begun) < endingWithin; {
			time.Sleep(20 * time.Millisecond)
		}
		_ = unix.Kill(-1, unix.SIGKILL)
		unix.Sync()
		if out, err := exec.Command("umount", "-a", "-r").CombinedOutput(); err != nil {
			fmt.Printf("guest: unmounting: %v: %s\n", err, out)
		}
		fmt.Println("guest: switching off")
		fmt.Println("guest:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	}()
}

// others reports whether a process is alive other than process 1, this one, and kernel threads.
func others() bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 && pid != 1 && pid != os.Getpid() {
			return true
		}
	}
	return false
}
