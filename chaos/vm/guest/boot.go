package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// agentWord is the argument that makes the program the agent.
const agentWord = "agent"

// Main is the main function of the program. It does not return.
func Main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == agentWord:
		err = serve()
	case os.Getpid() == 1:
		if err = boot(); err == nil {
			err = parent()
		}
		// Without process 1 the kernel panics; it is configured to restart then, and qemu exits at a restart.
	default:
		err = errors.New("this is process 1 of a virtual machine, and nothing else")
	}
	fmt.Fprintln(os.Stderr, "guest:", err)
	os.Exit(1)
}

// mounts are made in this order.
var mounts = []struct {
	kind, dir, data string
	flags           uintptr
}{
	{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID},
	{"devpts", "/dev/pts", "mode=0620,ptmxmode=0666", unix.MS_NOSUID | unix.MS_NOEXEC},
	{"tmpfs", "/dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	{"tmpfs", "/run", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV},
	{"tmpfs", "/tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	{"cgroup2", "/sys/fs/cgroup", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
}

// environment is the environment of all processes in the machine.
var environment = []string{"PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/root", "TERM=dumb", "LANG=C.UTF-8"}

func boot() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.dir, err)
		}
	}
	if err := delegateControllers(); err != nil {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := busybox(); err != nil {
		return err
	}
	return network()
}

// delegateControllers makes every controller of cgroup v2 available below the root.
func delegateControllers() error {
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(text)) {
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("turning on the controller %s: %w", name, err)
		}
	}
	return nil
}

func loadModules() error {
	files, err := filepath.Glob(ModuleDir + "/*")
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("loading %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// busybox makes links with the names of busybox's programs.
func busybox() error {
	out, err := exec.Command("/bin/busybox", "--install", "-s", "/bin").CombinedOutput()
	if err != nil {
		return fmt.Errorf("installing the programs of busybox: %w: %s", err, out)
	}
	return nil
}

// interfaceWithin limits the wait for the network card, which appears shortly after its driver.
const interfaceWithin = 20 * time.Second

func network() error {
	begun := time.Now()
	for {
		_, err := os.Stat("/sys/class/net/eth0")
		if err == nil {
			break
		}
		if time.Since(begun) > interfaceWithin {
			return fmt.Errorf("waiting for the network card: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, line := range []string{
		"link set lo up",
		"addr add " + Address + "/24 dev eth0",
		"link set eth0 up",
		"route add default via " + HostAddress,
	} {
		if out, err := exec.Command("/bin/busybox", append([]string{"ip"}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// parent starts the agent, and reaps every orphaned process, forever.
func parent() error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	agent, err := os.StartProcess("/init", []string{"/init", agentWord}, &os.ProcAttr{
		Env: environment, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for children: %w", err)
		case pid == agent.Pid:
			return fmt.Errorf("the agent ended with status %#x", uint32(status))
		case pid == 0:
			<-children
		}
	}
}
