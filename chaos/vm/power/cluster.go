package power

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/vm"
	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// gatewayPort is the port of the gateway in the machine.
const gatewayPort = 8080

// cluster is `mind dev` in a machine.
type cluster struct {
	machine *vm.Machine
	process *vm.Process
	// rest is a client of the gateway, once that is ready.
	rest *procs.REST
	// readyAfter is how long the cluster took to be ready.
	readyAfter time.Duration
	// ended is closed when mind has ended; how is the error then.
	ended chan struct{}
	how   error
}

// errDied is the error of a cluster that ended by itself.
var errDied = errors.New("mind ended by itself")

// startMind starts the cluster, and does not wait for it.
func (b *Bed) startMind(ctx context.Context, m *vm.Machine) (*cluster, error) {
	c := &cluster{machine: m, ended: make(chan struct{})}
	var err error
	c.process, err = m.Start(ctx, guest.Command{Log: devLog, Argv: []string{
		"mind", "dev", "--data-dir", dataDir, "--coordinators", strconv.Itoa(b.Coordinators), "--agents", strconv.Itoa(b.Agents),
		"--gpus", "8xH100", "--http", net.JoinHostPort("0.0.0.0", strconv.Itoa(gatewayPort)),
	}})
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		r, err := c.process.Wait(ctx)
		c.how = fmt.Errorf("%w with code %d", errDied, r.Code)
		if err != nil {
			c.how = err // the machine has ended
		}
	}()
	return c, nil
}

// tooSlow is the message of mind dev on a machine that was too slow, which is no failure of Mind.
const tooSlow = "the cluster is not ready after"

// startTries limits how often the start of a cluster is tried if the machine is too slow.
const startTries = 8

// readyWithin limits one start of the cluster. It is far longer than mind dev's own limit.
const readyWithin = 3 * time.Minute

// start starts the cluster and waits until it is ready. A cluster that cannot start is errDied.
func (b *Bed) start(ctx context.Context, m *vm.Machine) (*cluster, error) {
	for try := 1; ; try++ {
		c, err := b.startMind(ctx, m)
		if err != nil {
			return nil, err
		}
		if err = c.awaitReady(ctx); err == nil {
			return c, nil
		}
		text, _ := m.ReadFile(ctx, devLog)
		if errors.Is(err, errDied) && strings.Contains(string(text), tooSlow) {
			if try == startTries {
				return nil, fmt.Errorf("this machine is too slow: mind dev was not ready in time, %d times in a row", try)
			}
			b.Log("   mind dev was too slow; it is started again")
			if _, err := m.Shell(ctx, "rm "+devLog); err != nil {
				return nil, err
			}
			continue
		}
		return nil, fmt.Errorf("%w; it said:\n%s", err, indent(string(text)))
	}
}

func indent(text string) string {
	return "          " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n          ")
}

// readyPause is the time between two checks.
const readyPause = 100 * time.Millisecond

// awaitReady waits until mind dev is ready, and reads its dev.json.
func (c *cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	began := time.Now()
	for {
		text, err := c.machine.ReadFile(ctx, devLog)
		if err == nil && strings.Contains("\n"+string(text), "\nready ") {
			break
		}
		select {
		case <-c.ended:
			return c.how
		case <-ctx.Done():
			return fmt.Errorf("waiting until mind is ready: %w", ctx.Err())
		case <-time.After(readyPause):
		}
	}
	c.readyAfter = time.Since(began)
	text, err := c.machine.ReadFile(ctx, dataDir+"/dev.json")
	if err != nil {
		return err
	}
	var info procs.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("reading dev.json: %w", err)
	}
	info.Gateway.URL = "http://" + c.machine.Addr(gatewayPort)
	c.rest = procs.NewREST(info)
	return nil
}

// died returns mind dev's message about a component that ended by itself; empty: none has.
func (c *cluster) died(ctx context.Context) string {
	text, err := c.machine.ReadFile(ctx, devLog)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "component ended") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// logs returns the ends of all logs in the machine, for people.
func (c *cluster) logs(ctx context.Context) string {
	text, err := c.machine.Shell(ctx, fmt.Sprintf("for f in %s %s/logs/*.log; do echo == $f; tail -n 200 $f; done", devLog, dataDir))
	if err != nil {
		return err.Error()
	}
	return text
}
