package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/device/nvml"
	"github.com/mindcoordinator/mind/agent/device/smi"
)

// Command holds the arguments that make the executable the process that asks the driver.
var Command = []string{"device", "probe"}

func init() {
	if len(os.Args) == 3 && os.Args[1] == Command[0] && os.Args[2] == Command[1] {
		os.Exit(run())
	}
}

// run answers the agent until the agent closes the pipe. A call that hangs in the driver does not keep the process
// alive: another thread sees the end of the input, and ends the process.
func run() int {
	err := Serve(os.Stdin, os.Stdout, openDriver, func() { os.Exit(0) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "mind device probe:", err)
		return 1
	}
	return 0
}

// openDriver opens the driver that the machine has.
func openDriver() (device.Inventory, error) {
	inv, err := nvml.Open()
	if err == nil {
		return inv, nil
	}
	if inv, smiErr := smi.New(); smiErr == nil {
		return inv, nil
	}
	return nil, fmt.Errorf("%w: %w", device.ErrNoDriver, err)
}

// request is one line to the child, answer one line from the child. An answer with an Xid belongs to no request.
type request struct {
	ID    uint64   `json:"id"`
	Op    string   `json:"op"`
	UUIDs []string `json:"uuids,omitempty"`
}

type answer struct {
	ID        uint64                      `json:"id,omitempty"`
	Devices   []device.Device             `json:"devices,omitempty"`
	Processes map[string][]device.Process `json:"processes,omitempty"`
	Readings  []device.Reading            `json:"readings,omitempty"`
	Error     string                      `json:"error,omitempty"`
	NoDriver  bool                        `json:"no_driver,omitempty"`
	Hung      bool                        `json:"hung,omitempty"`
	Xid       *xid                        `json:"xid,omitempty"`
}

type xid struct {
	UUID string `json:"uuid"`
	Code int    `json:"code"`
}

const (
	opList      = "list"
	opProcesses = "processes"
	opRead      = "read"
)

// Serve answers requests until the input ends. Then it calls gone, on another goroutine, so that a hanging call can be
// abandoned; gone may be nil.
func Serve(in io.Reader, out io.Writer, open func() (device.Inventory, error), gone func()) error {
	requests := make(chan request)
	failed := make(chan error, 1)
	go func() {
		defer close(requests)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			var r request
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				failed <- fmt.Errorf("decode request: %w", err)
				return
			}
			requests <- r
		}
		if gone != nil {
			gone()
		}
	}()
	w := &writer{out: json.NewEncoder(out)}
	inv, openErr := open()
	if openErr == nil {
		defer inv.Close()
		if source, ok := inv.(device.XidSource); ok {
			source.OnXid(func(uuid string, code int) { _ = w.write(answer{Xid: &xid{uuid, code}}) })
		}
	}
	for r := range requests {
		a := answer{ID: r.ID}
		err := openErr
		if err == nil {
			err = handle(inv, r, &a)
		}
		if err != nil {
			a.Error, a.NoDriver, a.Hung = err.Error(), errors.Is(err, device.ErrNoDriver), errors.Is(err, device.ErrHung)
		}
		if err := w.write(a); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// handle asks the driver, however long it takes: the caller limits the time, and kills the process if necessary.
func handle(inv device.Inventory, r request, a *answer) (err error) {
	ctx := context.Background()
	switch r.Op {
	case opList:
		a.Devices, err = inv.List(ctx)
	case opProcesses:
		a.Processes, err = device.ProcessesOf(ctx, inv, r.UUIDs)
	case opRead:
		a.Readings, err = inv.Read(ctx)
	default:
		err = fmt.Errorf("unknown request %q", r.Op)
	}
	return err
}

type writer struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (w *writer) write(a answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(a)
}
