package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// Config configures a machine.
type Config struct {
	Kit       *Kit
	Initramfs string
	// Disks are /dev/vda, /dev/vdb, ... in the machine.
	Disks []*Disk
	// Forward are TCP ports of the machine that are forwarded to Machine.Addr.
	Forward []int
	// Console is the file to which the output of the kernel and process 1 is appended.
	Console string
	// CPUs default to 2, MemoryMB to 2048.
	CPUs, MemoryMB int
	// Append is added to the command line of the kernel.
	Append string
	// ReadyWithin limits the time of the start; default 2 min.
	ReadyWithin time.Duration

	// freeAddr chooses ports, in tests.
	freeAddr func() (string, error)
}

// Machine is a virtual machine that runs or has ended.
type Machine struct {
	cfg    Config
	addrs  map[int]string
	qemu   *os.Process
	done   chan struct{}
	err    error
	stderr bytes.Buffer
	client *client
	status guest.Status
	began  time.Time
	// before is the length of the console file before the machine was started.
	before int
}

// niceness is the niceness of a machine, so that other processes take precedence.
const niceness = 10

// bootTries limits how often the start of a machine is tried: again with other ports if another process took one after
// it was chosen, and again if the clock of the machine is wrong.
const bootTries = 8

// Boot starts a machine and returns when its agent answers.
func (c Config) Boot(ctx context.Context) (*Machine, error) {
	if c.CPUs == 0 {
		c.CPUs = 2
	}
	if c.MemoryMB == 0 {
		c.MemoryMB = 2048
	}
	if c.ReadyWithin == 0 {
		c.ReadyWithin = 2 * time.Minute
	}
	if c.freeAddr == nil {
		c.freeAddr = freeAddr
	}
	for try := 1; ; try++ {
		m, err := c.start()
		if err != nil {
			return nil, err
		}
		err = m.awaitReady(ctx)
		switch {
		case err == nil:
			return m, nil
		case (errors.Is(err, errPortTaken) || errors.Is(err, errClock)) && try < bootTries:
			if err := m.Cut(); err != nil {
				return nil, err
			}
			continue
		}
		_ = m.Cut()
		return nil, fmt.Errorf("starting a virtual machine: %w%s", err, m.lastWords())
	}
}

var (
	errPortTaken = errors.New("a port was taken by somebody else")
	errClock     = errors.New("its clock is wrong")
)

// start runs qemu.
func (c Config) start() (*Machine, error) {
	m := &Machine{cfg: c, addrs: map[int]string{}, done: make(chan struct{})}
	network := "user,id=net,ipv6=off"
	for _, port := range append([]int{guest.Port}, c.Forward...) {
		addr, err := c.freeAddr()
		if err != nil {
			return nil, err
		}
		m.addrs[port] = addr
		network += fmt.Sprintf(",hostfwd=tcp:%s-%s:%d", addr, guest.Address, port)
	}
	m.client = newClient(m.addrs[guest.Port])
	console, err := filepath.Abs(c.Console)
	if err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(console); err == nil {
		m.before = len(text)
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// This is set always, also where hardware virtualisation is available, because a machine inside a machine may
		// hang.
		"-accel", "tcg,thread=multi",
		// This excludes page tables of five levels, which only cost time here, and an instruction that qemu 7 emulates
		// wrongly, so that newer kernels panic.
		"-cpu", "max,-la57,-cx16",
		"-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.MemoryMB),
		"-kernel", c.Kit.Kernel, "-initrd", c.Initramfs,
		// A kernel that panics restarts, and because of -no-reboot qemu exits then.
		"-append", strings.TrimSpace("console=ttyS0 quiet loglevel=4 panic=-1 random.trust_cpu=on tsc=reliable " + c.Append),
		"-chardev", "file,id=console,append=on,path=" + quote(console), "-serial", "chardev:console",
		"-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile=",
	}
	for i, d := range c.Disks {
		path, err := filepath.Abs(d.Path)
		if err != nil {
			return nil, err
		}
		// Data that the machine has written is in this machine's page cache at once, and stays when qemu is killed.
		args = append(args, "-drive", fmt.Sprintf("if=none,id=disk%d,format=raw,cache=writeback,file=%s", i, quote(path)),
			"-device", fmt.Sprintf("virtio-blk-pci,drive=disk%d", i))
	}
	cmd := exec.Command(c.Kit.qemu, args...)
	cmd.Stderr = &m.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	m.began = time.Now()
	go m.keep(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting qemu: %w", err)
	}
	return m, nil
}

// quote doubles the commas of a value, as qemu requires.
func quote(value string) string { return strings.ReplaceAll(value, ",", ",,") }

// keep starts qemu and waits for its end on one thread: Linux delivers the death signal at the end of the thread that
// started a process, and not at the end of that thread's process. The thread, with its niceness, ends with this
// goroutine.
func (m *Machine) keep(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	err := cmd.Start()
	if err == nil {
		m.qemu = cmd.Process
	}
	started <- err
	if err == nil {
		m.err = cmd.Wait()
	}
	close(m.done)
}

// freeAddr returns an address that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// readyPause is the time between two checks whether the agent answers.
const readyPause = 50 * time.Millisecond

// awaitReady waits for ReadyWord on the console, and then asks the agent. An earlier request would not be quicker:
// packets that are sent before the network is up are repeated only after seconds.
func (m *Machine) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ReadyWithin)
	defer cancel()
	for !strings.Contains(m.said(), guest.ReadyWord) {
		select {
		case <-m.done:
			if text := m.stderr.String(); strings.Contains(text, "host forwarding rule") {
				return fmt.Errorf("%w: %s", errPortTaken, strings.TrimSpace(text))
			}
			return errors.New("qemu ended")
		case <-ctx.Done():
			return fmt.Errorf("its agent is not ready: %w", ctx.Err())
		case <-time.After(readyPause):
		}
	}
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	m.status = status
	return checkClock(status.Up, time.Since(m.began))
}

// lateKernel limits the time from the start of the machine to the start of the kernel's clock, on a slow machine.
const lateKernel = 10 * time.Second

// checkClock compares the kernel's uptime with the time since the start of the machine. The kernel calibrates its clock
// at its start, and if the processors were busy just then, the clock may be wrong by a large factor.
func checkClock(inside, here time.Duration) error {
	if inside > here+here/10 || inside < (here-lateKernel)/2 {
		return fmt.Errorf("%w: %v passed inside, and %v here", errClock, inside, here)
	}
	return nil
}

// said returns the output on the console since the machine was started.
func (m *Machine) said() string {
	text, err := os.ReadFile(m.cfg.Console)
	if err != nil || len(text) < m.before {
		return ""
	}
	return string(text[m.before:])
}

// lastWords returns the ends of the outputs of qemu and the console.
func (m *Machine) lastWords() string {
	const most = 2000
	var b strings.Builder
	if text := strings.TrimSpace(m.stderr.String()); text != "" {
		fmt.Fprintf(&b, "\nqemu: %s", text)
	}
	if text := m.said(); text != "" {
		fmt.Fprintf(&b, "\nthe end of its console (%s):\n%s", m.cfg.Console, text[max(0, len(text)-most):])
	}
	return b.String()
}

// Addr returns the address at which a forwarded port of the machine is reached.
func (m *Machine) Addr(port int) string { return m.addrs[port] }

// Boot returns the status of the machine when it became ready.
func (m *Machine) Boot() guest.Status { return m.status }

// Done returns a channel that is closed when the machine has ended for any reason.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Cut cuts the power: the machine ends at once, and data that its kernel has not written to the disks is lost. It does
// nothing if the machine has ended.
func (m *Machine) Cut() error {
	m.client.close()
	if err := m.qemu.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing qemu: %w", err)
	}
	<-m.done
	return nil
}

// PowerOff shuts the machine down: processes are ended, and the disks are unmounted.
func (m *Machine) PowerOff(ctx context.Context) error {
	if err := m.client.post(ctx, "/power-off", struct{}{}, &struct{}{}); err != nil {
		return errors.Join(fmt.Errorf("switching the machine off: %w", err), m.Cut())
	}
	select {
	case <-m.done:
		m.client.close()
		return m.err
	case <-ctx.Done():
		err := m.Cut()
		return errors.Join(fmt.Errorf("the machine does not switch itself off: %w%s", ctx.Err(), m.lastWords()), err)
	}
}
